// SPDX-License-Identifier: GPL-2.0-only
/* Module parameters, what the perf core does not export, and the order in which the parts come and go. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/namei.h>
#ifdef CONFIG_X86
#include <asm/cpufeature.h>
#endif

#include "softpmu.h"

uint softpmu_tick_us = 1000;
module_param_named(tick_us, softpmu_tick_us, uint, 0444);
MODULE_PARM_DESC(tick_us, "How often AUX buffers are filled");

uint softpmu_lbr_depth = SOFTPMU_BRANCHES_MAX;
module_param_named(lbr_depth, softpmu_lbr_depth, uint, 0644);
MODULE_PARM_DESC(lbr_depth, "Entries of a branch stack at most; 0: stacks are empty");

bool softpmu_nmi = true;
module_param_named(nmi, softpmu_nmi, bool, 0644);
MODULE_PARM_DESC(nmi, "Samples are delivered by NMI (x86)");

char *softpmu_hide = "";
module_param_named(hide, softpmu_hide, charp, 0444);
MODULE_PARM_DESC(hide, "Attributes that sysfs does not show: PMU/GROUP/NAME,...");

static char *pmus = "intel_pt,arm_spe_0,ibs_op,cpu";
module_param(pmus, charp, 0444);
MODULE_PARM_DESC(pmus, "PMUs to register");

struct softpmu_counts softpmu_counts;
char softpmu_filters[128];

int (*softpmu_event_overflow)(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs);
long (*softpmu_copy_aux)(struct perf_output_handle *aux, struct perf_output_handle *handle, unsigned long from,
			 unsigned long to);

/* kprobes know every function's address. */
static void *address_of(const char *symbol)
{
	struct kprobe probe = { .symbol_name = symbol };
	void *address;

	if (register_kprobe(&probe) < 0) {
		pr_err("the kernel has no %s\n", symbol);
		return NULL;
	}
	address = probe.addr;
	unregister_kprobe(&probe);
	return address;
}

static bool in_list(const char *list, const char *name)
{
	size_t length = strlen(name);
	const char *at;

	for (at = list; (at = strstr(at, name)); at += length) {
		if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return true;
	}
	return false;
}

static bool exists(const char *pmu)
{
	struct path path;
	char file[64];

	snprintf(file, sizeof(file), "/sys/bus/event_source/devices/%s", pmu);
	if (kern_path(file, LOOKUP_FOLLOW, &path))
		return false;
	path_put(&path);
	return true;
}

int softpmu_register(struct pmu *pmu, const char *name, int type, bool *registered)
{
	int error;

	if (!in_list(pmus, name))
		return 0;
	if (exists(name)) {
		pr_err("there is a PMU %s already\n", name);
		return -EEXIST;
	}
	pmu->module = THIS_MODULE;
	error = perf_pmu_register(pmu, name, type);
	*registered = !error;
	return error;
}

static int __init softpmu_init(void)
{
	int error;

#ifdef CONFIG_X86
	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR)) {
		pr_err("only for virtual machines\n");
		return -ENODEV;
	}
#endif
	softpmu_event_overflow = address_of("perf_event_overflow");
	softpmu_copy_aux = address_of("perf_output_copy_aux");
	if (!softpmu_event_overflow || !softpmu_copy_aux)
		return -ENOENT;
	error = softpmu_scripts_init();
	if (error)
		return error;
	error = softpmu_nmi_init();
	if (error)
		goto scripts;
	error = softpmu_aux_init();
	if (error)
		goto nmi;
	error = softpmu_core_init();
	if (error)
		goto aux;
	return 0;
aux:
	softpmu_aux_exit();
nmi:
	softpmu_nmi_exit();
scripts:
	softpmu_scripts_exit();
	return error;
}

static void __exit softpmu_exit(void)
{
	softpmu_core_exit();
	softpmu_aux_exit();
	softpmu_nmi_exit();
	softpmu_scripts_exit();
}

module_init(softpmu_init);
module_exit(softpmu_exit);
MODULE_DESCRIPTION("Software PMU for tests");
MODULE_LICENSE("GPL");
