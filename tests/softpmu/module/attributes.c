// SPDX-License-Identifier: GPL-2.0-only
/* What the PMUs show in sysfs: names and values as on machines that have them. */
#include <linux/device.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "softpmu.h"

struct text_attribute {
	struct device_attribute attribute;
	const char *text;
};

static ssize_t text_show(struct device *device, struct device_attribute *attribute, char *page)
{
	return sysfs_emit(page, "%s\n", container_of(attribute, struct text_attribute, attribute)->text);
}

/* Whether the parameter "hide" does not name it. */
static umode_t shown(struct kobject *kobject, struct attribute *attribute, const char *group)
{
	const char *device = dev_name(kobj_to_dev(kobject));
	const char *at = softpmu_hide;
	char name[96];
	size_t length;

	length = snprintf(name, sizeof(name), "%s/%s/%s", device, group, attribute->name);
	while (at && *at) {
		const char *comma = strchrnul(at, ',');

		if (comma - at == length && !strncmp(at, name, length))
			return 0;
		at = *comma ? comma + 1 : comma;
	}
	return attribute->mode;
}

#define VISIBLE(group)                                                                                  \
	static umode_t group##_shown(struct kobject *kobject, struct attribute *attribute, int index)   \
	{                                                                                               \
		return shown(kobject, attribute, #group);                                               \
	}
VISIBLE(format)
VISIBLE(caps)
VISIBLE(events)

#define TEXT(name_, text_)                                                                              \
	(&((struct text_attribute){                                                                     \
		.attribute = { .attr = { .name = name_, .mode = 0444 }, .show = text_show },            \
		.text = text_,                                                                          \
	}).attribute.attr)
#define GROUP(pmu, group, ...)                                                                          \
	static struct attribute *pmu##_##group##_attributes[] = { __VA_ARGS__, NULL };                  \
	static const struct attribute_group pmu##_##group = {                                           \
		.name = #group,                                                                         \
		.attrs = pmu##_##group##_attributes,                                                    \
		.is_visible = group##_shown,                                                            \
	}

GROUP(pt, format,
      TEXT("pt", "config:0"),
      TEXT("cyc", "config:1"),
      TEXT("pwr_evt", "config:4"),
      TEXT("fup_on_ptw", "config:5"),
      TEXT("mtc", "config:9"),
      TEXT("tsc", "config:10"),
      TEXT("noretcomp", "config:11"),
      TEXT("ptw", "config:12"),
      TEXT("branch", "config:13"),
      TEXT("mtc_period", "config:14-17"),
      TEXT("cyc_thresh", "config:19-22"),
      TEXT("psb_period", "config:24-27"));
GROUP(pt, caps,
      TEXT("max_subleaf", "1"),
      TEXT("cr3_filtering", "1"),
      TEXT("psb_cyc", "1"),
      TEXT("ip_filtering", "1"),
      TEXT("mtc", "1"),
      TEXT("ptwrite", "1"),
      TEXT("power_event_trace", "1"),
      TEXT("topa_output", "1"),
      TEXT("topa_multiple_entries", "1"),
      TEXT("single_range_output", "1"),
      TEXT("output_subsys", "0"),
      TEXT("payloads_lip", "0"),
      TEXT("num_address_ranges", "2"),
      TEXT("mtc_periods", "249"),
      TEXT("cycle_thresholds", "3fff"),
      TEXT("psb_periods", "3f"));
static struct attribute *pt_timing_attributes[] = {
	TEXT("max_nonturbo_ratio", "30"),
	TEXT("tsc_art_ratio", "250:2"),
	NULL,
};
static const struct attribute_group pt_timing = { .attrs = pt_timing_attributes };
const struct attribute_group *softpmu_pt_groups[] = { &pt_format, &pt_caps, &pt_timing, NULL };

GROUP(spe, format,
      TEXT("ts_enable", "config:0"),
      TEXT("pa_enable", "config:1"),
      TEXT("pct_enable", "config:2"),
      TEXT("jitter", "config:16"),
      TEXT("branch_filter", "config:32"),
      TEXT("load_filter", "config:33"),
      TEXT("store_filter", "config:34"),
      TEXT("event_filter", "config1:0-63"),
      TEXT("min_latency", "config2:0-11"));
GROUP(spe, caps,
      TEXT("arch_inst", "0"),
      TEXT("ernd", "0"),
      TEXT("count_size", "12"),
      TEXT("min_interval", "256"));

static ssize_t cpumask_show(struct device *device, struct device_attribute *attribute, char *page)
{
	return cpumap_print_to_pagebuf(true, page, cpu_online_mask);
}
static DEVICE_ATTR_RO(cpumask);
static struct attribute *spe_cpus_attributes[] = { &dev_attr_cpumask.attr, NULL };
static const struct attribute_group spe_cpus = { .attrs = spe_cpus_attributes };
const struct attribute_group *softpmu_spe_groups[] = { &spe_format, &spe_caps, &spe_cpus, NULL };

GROUP(ibs, format,
      TEXT("cnt_ctl", "config:19"),
      TEXT("l3missonly", "config:16"));
GROUP(ibs, caps,
      TEXT("zen4_ibs_extensions", "1"));
const struct attribute_group *softpmu_ibs_groups[] = { &ibs_format, &ibs_caps, NULL };

GROUP(cpu, format,
      TEXT("event", "config:0-7"),
      TEXT("umask", "config:8-15"),
      TEXT("edge", "config:18"),
      TEXT("inv", "config:23"),
      TEXT("cmask", "config:24-31"),
      TEXT("ldlat", "config1:0-15"));
GROUP(cpu, caps,
      TEXT("branches", "32"),
      TEXT("max_precise", "3"),
      TEXT("pmu_name", "softpmu"));
GROUP(cpu, events,
      TEXT("cpu-cycles", "event=0x3c"),
      TEXT("instructions", "event=0xc0"),
      TEXT("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
      TEXT("mem-stores", "event=0xd0,umask=0x82"));
const struct attribute_group *softpmu_cpu_groups[] = { &cpu_format, &cpu_caps, &cpu_events, NULL };
