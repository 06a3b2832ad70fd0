// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMUs that sample: `cpu`, which takes the generic hardware events, and `ibs_op`. Each counts nanoseconds, and a timer stands
 * for the overflow of the counter.
 *
 *   timer --> softpmu_deliver (NMI) --> softpmu_sample --> perf_event_overflow --> the core may stop and start the event
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/irq_regs.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "softpmu.h"

/* Shorter periods would leave an emulated CPU no time for anything else. */
#define PERIOD_NS_MIN 10000

struct softpmu_sampler {
	struct perf_event *event;
	struct hrtimer timer;
	u64 counted_ns; /* until when time was added to the event's count */
	u64 armed_ns; /* when the present period, or its rest, began */
	bool in_overflow; /* start and stop leave the timer alone */
	bool has_branches;
	struct softpmu_player branches;
	struct softpmu_player memory;
	struct softpmu_player ibs;
};

static struct pmu cpu_pmu;
static struct pmu ibs_pmu;
static bool cpu_registered, ibs_registered;

static void count(struct softpmu_sampler *sampler)
{
	u64 now = ktime_get_ns();

	local64_add(now - sampler->counted_ns, &sampler->event->count);
	sampler->counted_ns = now;
}

/* Keeps of a sample what has to live until it was written. */
struct record {
	struct perf_sample_data data;
	struct softpmu_branches branches;
	struct perf_raw_record raw;
	struct pt_regs regs;
};
/* A sample interrupts no other on the same CPU. */
static DEFINE_PER_CPU(struct record, records);

static void fill_memory(struct softpmu_sampler *sampler, struct record *record)
{
	struct softpmu_step piece;
	const struct softpmu_memory *memory;

	if (!softpmu_player_piece(&sampler->memory, &piece) || piece.bytes < sizeof(*memory))
		return;
	memory = (const void *)piece.payload;
	record->data.addr = memory->address ? memory->address : kernel_stack_pointer(&record->regs);
	record->data.weight.full = memory->weight;
	record->data.data_src.val = memory->data_source;
	record->data.sample_flags |= PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT_TYPE | PERF_SAMPLE_DATA_SRC;
}

static void fill_ibs(struct softpmu_sampler *sampler, struct record *record)
{
	struct softpmu_step piece;

	if (!softpmu_player_piece(&sampler->ibs, &piece))
		return;
	record->raw = (struct perf_raw_record){
		.frag = { .data = (void *)piece.payload, .size = piece.bytes },
	};
	softpmu_save_raw(&record->data, sampler->event, &record->raw);
}

static void fill_branches(struct softpmu_sampler *sampler, struct record *record)
{
	bool is_stack = sampler->event->attr.branch_sample_type & PERF_SAMPLE_BRANCH_CALL_STACK;

	if (sampler->branches.script->bytes && !is_stack)
		softpmu_play_branches(&record->branches, &sampler->branches);
	else
		softpmu_walk_branches(&record->branches, &record->regs);
	softpmu_save_branches(&record->data, sampler->event, &record->branches.stack);
}

void softpmu_sample(struct softpmu_sampler *sampler, struct pt_regs *regs)
{
	struct perf_event *event = sampler->event;
	struct record *record = this_cpu_ptr(&records);
	u64 wanted = event->attr.sample_type;

	record->regs = *regs;
	perf_sample_data_init(&record->data, 0, event->hw.last_period);
#ifdef CONFIG_X86
	if (event->attr.precise_ip)
		record->regs.flags |= PERF_EFLAGS_EXACT;
#endif
	if (wanted & (PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT_TYPE | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR))
		fill_memory(sampler, record);
	if (event->pmu == &ibs_pmu && (wanted & PERF_SAMPLE_RAW))
		fill_ibs(sampler, record);
	if (wanted & PERF_SAMPLE_BRANCH_STACK)
		fill_branches(sampler, record);
	atomic64_inc(&softpmu_counts.samples);
	if (softpmu_event_overflow(event, &record->data, &record->regs))
		event->pmu->stop(event, 0);
}

static bool counts_mode(const struct perf_event *event, struct pt_regs *regs)
{
	return user_mode(regs) ? !event->attr.exclude_user : !event->attr.exclude_kernel;
}

static u64 timer_ns(u64 left)
{
	return max_t(u64, left, PERIOD_NS_MIN);
}

static enum hrtimer_restart overflow(struct hrtimer *timer)
{
	struct softpmu_sampler *sampler = container_of(timer, struct softpmu_sampler, timer);
	struct hw_perf_event *hw = &sampler->event->hw;
	struct pt_regs *regs = get_irq_regs();

	if (hw->state & PERF_HES_STOPPED)
		return HRTIMER_NORESTART;
	count(sampler);
	hw->last_period = hw->sample_period;
	local64_set(&hw->period_left, hw->sample_period);
	sampler->armed_ns = ktime_get_ns();
	if (regs && counts_mode(sampler->event, regs)) {
		sampler->in_overflow = true;
		softpmu_deliver(sampler, regs);
		sampler->in_overflow = false;
	}
	if (hw->state & PERF_HES_STOPPED)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(timer_ns(local64_read(&hw->period_left))));
	return HRTIMER_RESTART;
}

static void sampler_start(struct perf_event *event, int flags)
{
	struct softpmu_sampler *sampler = event->pmu_private;
	struct hw_perf_event *hw = &event->hw;
	s64 left = local64_read(&hw->period_left);

	hw->state = 0;
	sampler->counted_ns = sampler->armed_ns = ktime_get_ns();
	if (!is_sampling_event(event))
		return;
	/* The core sets it to 0 where a new period begins. */
	if (left <= 0 || left > hw->sample_period) {
		left = hw->sample_period;
		hw->last_period = hw->sample_period;
		local64_set(&hw->period_left, left);
	}
	if (!sampler->in_overflow)
		hrtimer_start(&sampler->timer, ns_to_ktime(timer_ns(left)), HRTIMER_MODE_REL_PINNED_HARD);
}

static void sampler_stop(struct perf_event *event, int flags)
{
	struct softpmu_sampler *sampler = event->pmu_private;
	struct hw_perf_event *hw = &event->hw;

	if (!sampler->in_overflow)
		hrtimer_try_to_cancel(&sampler->timer);
	if (hw->state & PERF_HES_STOPPED)
		return;
	hw->state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	count(sampler);
	if (is_sampling_event(event)) {
		s64 passed = sampler->counted_ns - sampler->armed_ns;
		s64 left = local64_read(&hw->period_left);

		local64_set(&hw->period_left, max_t(s64, left - passed, 1));
	}
}

static int sampler_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		sampler_start(event, PERF_EF_RELOAD);
	perf_event_update_userpage(event);
	return 0;
}

static void sampler_del(struct perf_event *event, int flags)
{
	sampler_stop(event, PERF_EF_UPDATE);
	perf_event_update_userpage(event);
}

static void sampler_read(struct perf_event *event)
{
	if (!(event->hw.state & PERF_HES_STOPPED))
		count(event->pmu_private);
}

static void sampler_destroy(struct perf_event *event)
{
	struct softpmu_sampler *sampler = event->pmu_private;

	hrtimer_cancel(&sampler->timer);
	softpmu_player_end(&sampler->branches);
	softpmu_player_end(&sampler->memory);
	softpmu_player_end(&sampler->ibs);
	kfree(sampler);
}

static int sampler_init(struct perf_event *event)
{
	struct softpmu_sampler *sampler = kzalloc(sizeof(*sampler), GFP_KERNEL);

	if (!sampler)
		return -ENOMEM;
	sampler->event = event;
	softpmu_timer_setup(&sampler->timer, overflow);
	softpmu_player_begin(&sampler->branches, SOFTPMU_FILE_LBR);
	softpmu_player_begin(&sampler->memory, SOFTPMU_FILE_MEMORY);
	softpmu_player_begin(&sampler->ibs, SOFTPMU_FILE_IBS);
	event->pmu_private = sampler;
	event->destroy = sampler_destroy;
	return 0;
}

static int cpu_event_init(struct perf_event *event)
{
	switch (event->attr.type) {
	case PERF_TYPE_RAW:
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_HW_CACHE:
		return sampler_init(event);
	default:
		return -ENOENT;
	}
}

static int ibs_event_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	/* The counter's low four bits are always zero. */
	if (!event->attr.freq && (event->attr.sample_period & 0xf))
		return -EINVAL;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;
	return sampler_init(event);
}

static struct pmu cpu_pmu = {
	.task_ctx_nr = perf_hw_context,
	.capabilities = PERF_PMU_CAP_AUX_OUTPUT | SOFTPMU_CAP_SECOND_LOAD,
	.attr_groups = softpmu_cpu_groups,
	.event_init = cpu_event_init,
	.add = sampler_add,
	.del = sampler_del,
	.start = sampler_start,
	.stop = sampler_stop,
	.read = sampler_read,
};

static struct pmu ibs_pmu = {
	.task_ctx_nr = perf_sw_context,
	.attr_groups = softpmu_ibs_groups,
	.event_init = ibs_event_init,
	.add = sampler_add,
	.del = sampler_del,
	.start = sampler_start,
	.stop = sampler_stop,
	.read = sampler_read,
};

int softpmu_core_init(void)
{
	int error = softpmu_register(&ibs_pmu, "ibs_op", -1, &ibs_registered);

	if (!error)
		error = softpmu_register(&cpu_pmu, "cpu", PERF_TYPE_RAW, &cpu_registered);
	if (error)
		softpmu_core_exit();
	return error;
}

void softpmu_core_exit(void)
{
	if (cpu_registered)
		perf_pmu_unregister(&cpu_pmu);
	if (ibs_registered)
		perf_pmu_unregister(&ibs_pmu);
}
