// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where samples are taken: on x86 the timer sends its own CPU an NMI and waits for it, so that handlers, BPF programs among
 * them, run in the context of a real PMU's interrupt. The sample is of what the timer interrupted.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/percpu.h>

#include "softpmu.h"

#ifdef CONFIG_X86
#include <asm/apic.h>
#include <asm/nmi.h>

/* Looks at whether the NMI came, which an emulator takes its time for. */
#define LOOKS_MAX 1000000

struct delivery {
	struct softpmu_sampler *sampler; /* NULL: nothing is awaited */
	struct pt_regs *regs;
};
static DEFINE_PER_CPU(struct delivery, deliveries);

static int handle_nmi(unsigned int reason, struct pt_regs *regs)
{
	struct delivery *delivery = this_cpu_ptr(&deliveries);
	struct softpmu_sampler *sampler = xchg(&delivery->sampler, NULL);

	if (!sampler)
		return NMI_DONE;
	atomic64_inc(&softpmu_counts.samples_in_nmi);
	softpmu_sample(sampler, delivery->regs);
	return NMI_HANDLED;
}

int softpmu_nmi_init(void)
{
	return register_nmi_handler(NMI_LOCAL, handle_nmi, 0, "softpmu");
}

void softpmu_nmi_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "softpmu");
}

void softpmu_deliver(struct softpmu_sampler *sampler, struct pt_regs *regs)
{
	struct delivery *delivery = this_cpu_ptr(&deliveries);
	unsigned int looks;

	if (!softpmu_nmi) {
		softpmu_sample(sampler, regs);
		return;
	}
	delivery->regs = regs;
	WRITE_ONCE(delivery->sampler, sampler);
	apic->send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
	for (looks = 0; looks < LOOKS_MAX && READ_ONCE(delivery->sampler); ++looks)
		cpu_relax();
	/* One that comes now finds nothing to do. */
	if (xchg(&delivery->sampler, NULL))
		atomic64_inc(&softpmu_counts.nmis_lost);
}

#else

int softpmu_nmi_init(void)
{
	return 0;
}

void softpmu_nmi_exit(void)
{
}

void softpmu_deliver(struct softpmu_sampler *sampler, struct pt_regs *regs)
{
	softpmu_sample(sampler, regs);
}

#endif
