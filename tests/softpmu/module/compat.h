/* SPDX-License-Identifier: GPL-2.0-only */
/* What is spelled differently from kernel to kernel. The build looks into the headers (probe in Kbuild), since stable
 * trees take changes over. */
#pragma once

#include <linux/hrtimer.h>
#include <linux/perf_event.h>
#include <linux/version.h>

/* Before 6.2 one PMU a boot may have the hardware's context, unless it has this: a module that is loaded twice needs
 * it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define SOFTPMU_CAP_SECOND_LOAD PERF_PMU_CAP_HETEROGENEOUS_CPUS
#else
#define SOFTPMU_CAP_SECOND_LOAD 0
#endif

static inline void softpmu_timer_setup(struct hrtimer *timer, enum hrtimer_restart (*tick)(struct hrtimer *))
{
#ifdef SOFTPMU_HRTIMER_SETUP
	hrtimer_setup(timer, tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = tick;
#endif
}

static inline void softpmu_save_branches(struct perf_sample_data *data, struct perf_event *event,
					 struct perf_branch_stack *stack)
{
#if defined(SOFTPMU_BRSTACK_COUNTERS)
	perf_sample_save_brstack(data, event, stack, NULL);
#elif defined(SOFTPMU_SAVE_BRSTACK)
	perf_sample_save_brstack(data, event, stack);
#else
	data->br_stack = stack;
	data->sample_flags |= PERF_SAMPLE_BRANCH_STACK;
#endif
}

static inline void softpmu_save_raw(struct perf_sample_data *data, struct perf_event *event,
				    struct perf_raw_record *raw)
{
#if defined(SOFTPMU_RAW_EVENT)
	perf_sample_save_raw_data(data, event, raw);
#elif defined(SOFTPMU_SAVE_RAW)
	perf_sample_save_raw_data(data, raw);
#else
	data->raw = raw;
	data->sample_flags |= PERF_SAMPLE_RAW;
#endif
}
