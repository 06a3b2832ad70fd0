/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A software PMU: registers PMUs under the names of real ones and plays scripts (../softpmu_abi.h) through the kernel's
 * perf core, so that everything between a driver's callbacks and a profiler's reader is the real thing.
 *
 *   debugfs --> script.c --> aux.c   intel_pt, arm_spe_0: the AUX buffer, filled by a timer
 *                       `--> core.c  cpu, ibs_op: a timer that samples --> lbr.c (what a sample holds)
 *                                                              `--> nmi.c  in the context that a real PMU has
 */
#pragma once

#include <linux/hrtimer.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "softpmu_abi.h"

enum softpmu_file {
	SOFTPMU_FILE_PT,
	SOFTPMU_FILE_SPE,
	SOFTPMU_FILE_IBS,
	SOFTPMU_FILE_LBR,
	SOFTPMU_FILE_MEMORY,
	SOFTPMU_FILES
};

/* script.c: a script is replaced only while nothing plays it. */
struct softpmu_script {
	const u8 *bytes; /* NULL: there is none */
	size_t size;
	atomic_t players;
};

struct softpmu_player {
	struct softpmu_script *script;
	size_t at; /* of the next op */
	u64 rate;
	struct softpmu_time time; /* bytes is 0 where nothing is to be patched */
	char task[SOFTPMU_TASK_BYTES];
	u32 loops; /* done */
	bool lost; /* passes over everything until SYNC */
};

/* An op that is for the PMU; the others are dealt with by the player. */
struct softpmu_step {
	enum softpmu_code code; /* DATA, WAIT, FLAGS, GAP or END */
	const u8 *payload;
	u32 bytes;
};

int softpmu_scripts_init(void);
void softpmu_scripts_exit(void);
void softpmu_player_begin(struct softpmu_player *player, enum softpmu_file file);
void softpmu_player_end(struct softpmu_player *player);
/* The same step again until it is taken. */
struct softpmu_step softpmu_player_look(struct softpmu_player *player);
void softpmu_player_take(struct softpmu_player *player, const struct softpmu_step *step);
/* For players of which each sample takes one piece: false where there is none. */
bool softpmu_player_piece(struct softpmu_player *player, struct softpmu_step *step);

/* attributes.c: what stands in sysfs. */
extern const struct attribute_group *softpmu_pt_groups[];
extern const struct attribute_group *softpmu_spe_groups[];
extern const struct attribute_group *softpmu_ibs_groups[];
extern const struct attribute_group *softpmu_cpu_groups[];

/* aux.c, core.c: PMUs. */
int softpmu_aux_init(void);
void softpmu_aux_exit(void);
int softpmu_core_init(void);
void softpmu_core_exit(void);
/* Unless a PMU of this name is there or it is not wanted; `registered` says whether it has to be unregistered. */
int softpmu_register(struct pmu *pmu, const char *name, int type, bool *registered);

/* lbr.c */
#define SOFTPMU_BRANCHES_MAX 32
struct softpmu_branches {
	struct perf_branch_stack stack;
	struct perf_branch_entry entries[SOFTPMU_BRANCHES_MAX];
};
void softpmu_walk_branches(struct softpmu_branches *branches, const struct pt_regs *regs);
void softpmu_play_branches(struct softpmu_branches *branches, struct softpmu_player *player);

/* nmi.c: runs `deliver` as a real PMU's interrupt would run it. */
struct softpmu_sampler;
int softpmu_nmi_init(void);
void softpmu_nmi_exit(void);
void softpmu_deliver(struct softpmu_sampler *sampler, struct pt_regs *regs);
/* core.c: called by the above. */
void softpmu_sample(struct softpmu_sampler *sampler, struct pt_regs *regs);

/* main.c: functions of the perf core that are not exported. */
extern int (*softpmu_event_overflow)(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs);
extern long (*softpmu_copy_aux)(struct perf_output_handle *aux, struct perf_output_handle *handle, unsigned long from,
				unsigned long to);

/* Module parameters. */
extern uint softpmu_tick_us;
extern uint softpmu_lbr_depth;
extern bool softpmu_nmi;
extern char *softpmu_hide;

/* Counters of the file "status". */
struct softpmu_counts {
	atomic64_t starts;
	atomic64_t stops;
	atomic64_t aux_records;
	atomic64_t aux_bytes;
	atomic64_t truncations;
	atomic64_t samples;
	atomic64_t samples_in_nmi;
	atomic64_t nmis_lost;
};
extern struct softpmu_counts softpmu_counts;
/* The address filters that were synced last: "start-end start-end". */
extern char softpmu_filters[128];
