/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Playback scripts of the software PMU: what is written to the files of /sys/kernel/debug/softpmu/.
 *
 *   header | op payload padding | op payload padding | ...        everything little-endian, ops at multiples of 8
 *
 *   intel_pt    bytes of Intel PT: the trace that every event of the PMU plays
 *   arm_spe_0   one DATA a record of Arm SPE
 *   ibs_op      one DATA a raw record of AMD IBS (its caps word and registers), taken by one sample
 *   lbr         one DATA a branch stack (struct softpmu_branch, the newest first), taken by one sample. Without a script the
 *               stack is walked along the frame pointers of the interrupted thread
 *   memory      one DATA a struct softpmu_memory, taken by one sample
 *
 * An event plays its script from the beginning on; what it played is kept while it is switched out. Time passes for it only
 * while it runs (and its task filter, if there is one, lets it).
 */
#pragma once

#include <linux/types.h>

#define SOFTPMU_MAGIC "SOFTPMU1"
#define SOFTPMU_TASK_BYTES 16

/* NOLINTBEGIN(readability-identifier-naming): names of C. */
struct softpmu_header {
  __u8 magic[8];
  __u32 flags; /* SOFTPMU_FILL, SOFTPMU_PATIENT */
  __u32 reserved;
};

/* A buffer that ends inside a piece is filled to its last byte, as a processor does; else the piece is left out. */
#define SOFTPMU_FILL 1
/* What does not fit waits for the reader, so that nothing is lost however slow the machine is. No hardware does that. */
#define SOFTPMU_PATIENT 2

struct softpmu_op {
  __u16 code;
  __u16 reserved;
  __u32 bytes; /* of the payload; the next op begins at the next multiple of 8 */
};

enum softpmu_code {
  SOFTPMU_END = 0,   /* nothing more comes */
  SOFTPMU_DATA = 1,  /* an indivisible piece */
  SOFTPMU_TIME = 2,  /* struct softpmu_time: of the next piece */
  SOFTPMU_SYNC = 3,  /* a place where a trace may begin; after a loss, playing goes on here */
  SOFTPMU_WAIT = 4,  /* u64 nanoseconds without a byte */
  SOFTPMU_FLAGS = 5, /* u64 PERF_AUX_FLAG_*: of the AUX record that is being written */
  /* u64 bytes a second that pieces take from here on. 0, as in the beginning: a piece takes the event's sample period in
     nanoseconds. */
  SOFTPMU_RATE = 6,
  SOFTPMU_GAP = 7, /* as if the buffer were full: the record is TRUNCATED, the event stops */
  /* SOFTPMU_TASK_BYTES characters, zero-filled: from here on time passes only while a thread of that name runs in user
     mode. An empty name: always. */
  SOFTPMU_TASK = 8,
  SOFTPMU_LOOP = 9, /* struct softpmu_loop; loops do not nest */
};

struct softpmu_time {
  __u32 offset; /* in the piece */
  __u32 bytes;  /* at most 8: low bytes of the counter (x86: TSC, arm64: CNTVCT) put there */
};

struct softpmu_loop {
  __u32 target; /* offset of an op, from the beginning of the header */
  __u32 times;  /* so often; 0: for ever */
};

struct softpmu_branch {
  __u64 from;
  __u64 to;
  __u64 flags; /* the third word of struct perf_branch_entry */
};

struct softpmu_memory {
  __u64 address;     /* 0: the interrupted thread's stack pointer */
  __u64 weight;      /* union perf_sample_weight */
  __u64 data_source; /* union perf_mem_data_src */
};
/* NOLINTEND(readability-identifier-naming) */
