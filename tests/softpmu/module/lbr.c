// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch stacks: from a script, or walked. A walk finds the return addresses along the frame pointers and reads the call in
 * front of each: its place and target are those that a processor would have recorded.
 */
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "softpmu.h"

static bool read_user(void *to, unsigned long from, size_t bytes)
{
	return !copy_from_user_nofault(to, (const void __user *)from, bytes);
}

/* The direct call that returns to `address`; false if there is none. */
static bool find_call(unsigned long address, struct perf_branch_entry *entry)
{
#if defined(CONFIG_X86)
	struct {
		u8 opcode;
		s32 displacement;
	} __packed code;

	if (!read_user(&code, address - sizeof(code), sizeof(code)) || code.opcode != 0xe8)
		return false;
	entry->from = address - sizeof(code);
	entry->to = address + code.displacement;
	return true;
#elif defined(CONFIG_ARM64)
	u32 code;

	if (!read_user(&code, address - sizeof(code), sizeof(code)) || code >> 26 != 0x25)
		return false;
	entry->from = address - sizeof(code);
	entry->to = entry->from + ((s32)(code << 6) >> 4);
	return true;
#else
	return false;
#endif
}

static unsigned long frame_pointer_of(const struct pt_regs *regs)
{
#if defined(CONFIG_X86)
	return regs->bp;
#elif defined(CONFIG_ARM64)
	return regs->regs[29];
#else
	return 0;
#endif
}

static struct perf_branch_entry *new_entry(struct softpmu_branches *branches)
{
	struct perf_branch_entry *entry = &branches->entries[branches->stack.nr];

	if (branches->stack.nr >= min_t(uint, softpmu_lbr_depth, SOFTPMU_BRANCHES_MAX))
		return NULL;
	memset(entry, 0, sizeof(*entry));
	return entry;
}

void softpmu_walk_branches(struct softpmu_branches *branches, const struct pt_regs *regs)
{
	struct {
		unsigned long next;
		unsigned long return_address;
	} frame;
	struct perf_branch_entry *entry;
	unsigned long at;

	branches->stack.nr = 0;
	branches->stack.hw_idx = -1ULL;
	if (!current->mm)
		return;
	if (!user_mode((struct pt_regs *)regs))
		regs = task_pt_regs(current);
	for (at = frame_pointer_of(regs); (entry = new_entry(branches)); at = frame.next) {
		if (!at || (at & (sizeof(long) - 1)) || !read_user(&frame, at, sizeof(frame)) ||
		    !find_call(frame.return_address, entry))
			return;
		entry->predicted = 1;
		++branches->stack.nr;
		if (frame.next <= at)
			return;
	}
}

void softpmu_play_branches(struct softpmu_branches *branches, struct softpmu_player *player)
{
	struct perf_branch_entry *entry;
	struct softpmu_step piece;
	u32 at;

	branches->stack.nr = 0;
	branches->stack.hw_idx = -1ULL;
	if (!softpmu_player_piece(player, &piece))
		return;
	for (at = 0; at + sizeof(struct softpmu_branch) <= piece.bytes && (entry = new_entry(branches));
	     at += sizeof(struct softpmu_branch)) {
		memcpy(entry, piece.payload + at, sizeof(struct softpmu_branch));
		++branches->stack.nr;
	}
}
