// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMUs that write into AUX buffers. A timer stands for the hardware: each tick appends the pieces whose time has come, and
 * stands for its interrupt too, which tells the perf core of what was written when the buffer's watermark was passed or no
 * space is left.
 *
 *   full trace   head and size count bytes for ever        a piece that does not fit: TRUNCATED, the event stops
 *   snapshot     Intel PT: head is a place in the buffer, and each record says that the whole buffer is in it;
 *                Arm SPE: head counts bytes, the record says how many are new
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <asm/irq_regs.h>

#include "compat.h"
#include "softpmu.h"

/* Where ticks came late (an emulated CPU waits for a real one), this many are caught up with; the reader was late as well. */
#define TICKS_MAX 2
#define PT_CONFIG 0x0f7bfe33ULL
#define PT_FILTERS 2
#define SPE_PERIOD_STEP 256
#define SPE_RECORD_BYTES 64

struct aux_buffer {
	void **pages;
	size_t bytes;
	bool snapshot;
};

struct aux_event {
	struct softpmu_player player;
	u64 credit_ns; /* has passed, and was not used for a piece yet */
};

struct aux_unit {
	struct perf_output_handle handle;
	struct hrtimer timer;
	struct perf_event *event; /* that was added */
	struct aux_buffer *buffer; /* NULL: nothing is written */
	size_t written; /* since the record began */
	size_t begin; /* head when the record began */
	u64 now_ns; /* until when it was played */
	bool is_pt;
};

struct aux_pmu {
	struct pmu pmu;
	struct aux_unit __percpu *units;
	bool registered;
};

static struct aux_pmu pt;
static struct aux_pmu spe;

static u64 tick_ns(void)
{
	return (u64)softpmu_tick_us * NSEC_PER_USEC;
}

static bool is_pt(const struct perf_event *event)
{
	return event->pmu == &pt.pmu;
}

static struct aux_unit *unit_of(struct perf_event *event)
{
	return this_cpu_ptr(container_of(event->pmu, struct aux_pmu, pmu)->units);
}

/* Where the next byte goes, counted from the buffer's beginning for ever. */
static size_t position(const struct aux_unit *unit)
{
	return unit->begin + unit->written;
}

static void append(struct aux_unit *unit, const u8 *from, size_t bytes)
{
	struct aux_buffer *buffer = unit->buffer;

	while (bytes) {
		size_t place = position(unit) & (buffer->bytes - 1);
		size_t part = min_t(size_t, bytes, PAGE_SIZE - offset_in_page(place));

		memcpy(buffer->pages[place >> PAGE_SHIFT] + offset_in_page(place), from, part);
		unit->written += part;
		atomic64_add(part, &softpmu_counts.aux_bytes);
		from += part;
		bytes -= part;
	}
}

static void append_time(struct aux_unit *unit, const struct softpmu_time *time)
{
	__le64 now = cpu_to_le64(get_cycles());
	u32 index;

	for (index = 0; index < time->bytes; ++index) {
		size_t place = (position(unit) + time->offset + index) & (unit->buffer->bytes - 1);

		((u8 *)unit->buffer->pages[place >> PAGE_SHIFT])[offset_in_page(place)] = ((u8 *)&now)[index];
	}
}

/* For the next piece, as far as is known: the reader may have given more back since the record began. */
static size_t space_of(const struct aux_unit *unit)
{
	return unit->buffer->snapshot ? unit->buffer->bytes : unit->handle.size - unit->written;
}

static void append_piece(struct aux_unit *unit, const struct softpmu_player *player, const struct softpmu_step *piece)
{
	size_t begin = unit->written, end;

	append(unit, piece->payload, piece->bytes);
	if (!player->time.bytes)
		return;
	end = unit->written;
	unit->written = begin;
	append_time(unit, &player->time);
	unit->written = end;
}

static bool may_play(const struct softpmu_player *player, const struct pt_regs *regs)
{
	if (!player->task[0])
		return true;
	return regs && user_mode((struct pt_regs *)regs) &&
	       !strncmp(current->comm, player->task, sizeof(player->task));
}

static u64 cost_ns(const struct perf_event *event, const struct softpmu_player *player, const struct softpmu_step *step)
{
	if (step->code == SOFTPMU_WAIT)
		return *(const u64 *)step->payload;
	if (step->code != SOFTPMU_DATA)
		return 0;
	if (player->rate)
		return div64_u64((u64)step->bytes * NSEC_PER_SEC, player->rate);
	return event->hw.sample_period;
}

static bool has_flag(const struct softpmu_player *player, u32 flag)
{
	return ((const struct softpmu_header *)player->script->bytes)->flags & flag;
}

/* A script that waits never fills the buffer: without any space a record could not begin. */
static bool fits(const struct aux_unit *unit, const struct softpmu_player *player, u32 bytes)
{
	return has_flag(player, SOFTPMU_PATIENT) ? bytes < space_of(unit) : bytes <= space_of(unit);
}

enum outcome {
	PLAYED, /* what the time until now is good for */
	NO_SPACE, /* before a piece that does not fit */
	GAP, /* the script says that the buffer is full */
};

static enum outcome play(struct aux_unit *unit, const struct pt_regs *regs)
{
	struct aux_event *state = unit->event->pmu_private;
	struct softpmu_player *player = &state->player;
	u64 now = ktime_get_ns();

	state->credit_ns += min_t(u64, now - unit->now_ns, TICKS_MAX * tick_ns());
	unit->now_ns = now;
	for (;;) {
		struct softpmu_step step = softpmu_player_look(player);
		u64 cost = cost_ns(unit->event, player, &step);

		if (step.code == SOFTPMU_END || !may_play(player, regs)) {
			state->credit_ns = 0;
			return PLAYED;
		}
		if (cost > state->credit_ns)
			return PLAYED;
		if (step.code == SOFTPMU_DATA && !fits(unit, player, step.bytes))
			return NO_SPACE;
		state->credit_ns -= cost;
		if (step.code == SOFTPMU_FLAGS)
			perf_aux_output_flag(&unit->handle, *(const u64 *)step.payload);
		if (step.code == SOFTPMU_DATA)
			append_piece(unit, player, &step);
		softpmu_player_take(player, &step);
		if (step.code == SOFTPMU_GAP) {
			player->lost = true;
			return GAP;
		}
	}
}

/* The piece that does not fit is lost, and what follows it until a place where a trace can begin; unless the script waits. */
static enum outcome lose_piece(struct aux_unit *unit)
{
	struct aux_event *state = unit->event->pmu_private;
	struct softpmu_step step = softpmu_player_look(&state->player);

	if (has_flag(&state->player, SOFTPMU_PATIENT)) {
		state->credit_ns = 0;
		return PLAYED;
	}
	if (has_flag(&state->player, SOFTPMU_FILL))
		append(unit, step.payload, space_of(unit));
	state->player.lost = true;
	return NO_SPACE;
}

/* Begins a record; false if there is no space for one. */
static bool begin_record(struct aux_unit *unit, struct perf_event *event)
{
	struct aux_buffer *buffer = perf_aux_output_begin(&unit->handle, event);

	if (!buffer)
		return false;
	if (!is_pt(event) && !buffer->snapshot && unit->handle.size < SPE_RECORD_BYTES) {
		perf_aux_output_flag(&unit->handle, PERF_AUX_FLAG_TRUNCATED);
		perf_aux_output_end(&unit->handle, 0);
		return false;
	}
	unit->begin = unit->handle.head;
	unit->written = 0;
	barrier(); /* softpmu_snapshot may come by NMI */
	WRITE_ONCE(unit->buffer, buffer);
	return true;
}

static void end_record(struct aux_unit *unit, bool full)
{
	struct aux_buffer *buffer = unit->buffer;
	size_t size = unit->written;

	WRITE_ONCE(unit->buffer, NULL);
	barrier();
	if (full) {
		perf_aux_output_flag(&unit->handle, PERF_AUX_FLAG_TRUNCATED);
		atomic64_inc(&softpmu_counts.truncations);
	}
	atomic64_inc(&softpmu_counts.aux_records);
	if (buffer->snapshot && unit->is_pt) {
		unit->handle.head = position(unit) & (buffer->bytes - 1);
		size = buffer->bytes;
	} else if (buffer->snapshot) {
		unit->handle.head += size;
	}
	perf_aux_output_end(&unit->handle, size);
}

static enum hrtimer_restart stopped(struct aux_unit *unit)
{
	unit->event->hw.state = PERF_HES_STOPPED;
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct aux_unit *unit = container_of(timer, struct aux_unit, timer);
	struct pt_regs *regs = get_irq_regs();
	enum outcome outcome;

	if (!unit->buffer)
		return HRTIMER_NORESTART;
	outcome = play(unit, regs);
	/* A driver is interrupted before the end of the space that it knows, and asks how much there is now. */
	if (outcome == NO_SPACE && space_of(unit)) {
		end_record(unit, false);
		if (!begin_record(unit, unit->event))
			return stopped(unit);
		outcome = play(unit, regs);
	}
	if (outcome == NO_SPACE)
		outcome = lose_piece(unit);
	if (outcome != PLAYED) {
		end_record(unit, true);
		return stopped(unit);
	}
	if (!unit->buffer->snapshot && position(unit) >= unit->handle.wakeup) {
		end_record(unit, false);
		if (!begin_record(unit, unit->event))
			return stopped(unit);
	}
	hrtimer_forward_now(timer, ns_to_ktime(tick_ns()));
	return HRTIMER_RESTART;
}

static void aux_start(struct perf_event *event, int flags)
{
	struct aux_unit *unit = unit_of(event);

	atomic64_inc(&softpmu_counts.starts);
	if (is_pt(event))
		perf_event_addr_filters_sync(event);
	if (!begin_record(unit, event)) {
		event->hw.state = PERF_HES_STOPPED;
		return;
	}
	event->hw.state = 0;
	unit->now_ns = ktime_get_ns();
	hrtimer_start(&unit->timer, ns_to_ktime(tick_ns()), HRTIMER_MODE_REL_PINNED_HARD);
}

static void aux_stop(struct perf_event *event, int flags)
{
	struct aux_unit *unit = unit_of(event);
	enum outcome outcome;

	/* Never waits: the tick sees that there is no buffer. */
	hrtimer_try_to_cancel(&unit->timer);
	if (event->hw.state & PERF_HES_STOPPED)
		return;
	atomic64_inc(&softpmu_counts.stops);
	event->hw.state = PERF_HES_STOPPED;
	outcome = play(unit, NULL);
	if (outcome == NO_SPACE)
		outcome = lose_piece(unit);
	end_record(unit, outcome != PLAYED);
}

static int aux_add(struct perf_event *event, int flags)
{
	struct aux_unit *unit = unit_of(event);

	if (unit->event)
		return -EBUSY;
	unit->event = event;
	event->hw.state = PERF_HES_STOPPED;
	if (!(flags & PERF_EF_START))
		return 0;
	aux_start(event, 0);
	if (!(event->hw.state & PERF_HES_STOPPED))
		return 0;
	unit->event = NULL;
	return -EINVAL;
}

static void aux_del(struct perf_event *event, int flags)
{
	aux_stop(event, PERF_EF_UPDATE);
	unit_of(event)->event = NULL;
}

static void aux_read(struct perf_event *event)
{
}

static void *setup_aux(struct perf_event *event, void **pages, int count, bool snapshot)
{
	struct aux_buffer *buffer;

	if (!is_pt(event) && (count < 2 || (snapshot && (count & 1))))
		return NULL;
	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return NULL;
	buffer->pages = pages;
	buffer->bytes = (size_t)count << PAGE_SHIFT;
	buffer->snapshot = snapshot;
	return buffer;
}

static void free_aux(void *buffer)
{
	kfree(buffer);
}

/* May interrupt everything above but runs on the same CPU. */
static long snapshot_aux(struct perf_event *event, struct perf_output_handle *handle, unsigned long bytes)
{
	struct aux_unit *unit = unit_of(event);
	struct aux_buffer *buffer = READ_ONCE(unit->buffer);
	unsigned long to, from;

	if (!buffer || unit->event != event)
		return 0;
	to = position(unit) & (buffer->bytes - 1);
	from = to < bytes ? buffer->bytes : 0;
	from += to - bytes;
	return softpmu_copy_aux(&unit->handle, handle, from, to);
}

/* As two registers for ranges can have it. */
static int validate_filters(struct list_head *filters)
{
	struct perf_addr_filter *filter;
	int ranges = 0;

	list_for_each_entry(filter, filters, entry) {
		if (!filter->size || filter->action == PERF_ADDR_FILTER_ACTION_START)
			return -EOPNOTSUPP;
		if (++ranges > PT_FILTERS)
			return -EOPNOTSUPP;
	}
	return 0;
}

static void sync_filters(struct perf_event *event)
{
	int index, used = 0;

	softpmu_filters[0] = 0;
	for (index = 0; index < PT_FILTERS; ++index) {
		const struct perf_addr_filter_range *range = &event->addr_filter_ranges[index];

		if (range->size)
			used += scnprintf(softpmu_filters + used, sizeof(softpmu_filters) - used, "%s%lx-%lx",
					  used ? " " : "", range->start, range->start + range->size);
	}
}

static void aux_destroy(struct perf_event *event)
{
	struct aux_event *state = event->pmu_private;

	softpmu_player_end(&state->player);
	kfree(state);
}

static int aux_event_init(struct perf_event *event)
{
	struct aux_event *state;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (is_pt(event)) {
		if (event->attr.config & ~PT_CONFIG)
			return -EINVAL;
	} else {
		if (event->attr.freq)
			return -EINVAL;
		if (event->attr.exclude_idle)
			return -EOPNOTSUPP;
		event->hw.sample_period = max_t(u64, round_down(event->hw.sample_period, SPE_PERIOD_STEP),
						SPE_PERIOD_STEP);
	}
	state = kzalloc(sizeof(*state), GFP_KERNEL);
	if (!state)
		return -ENOMEM;
	softpmu_player_begin(&state->player, is_pt(event) ? SOFTPMU_FILE_PT : SOFTPMU_FILE_SPE);
	event->pmu_private = state;
	event->destroy = aux_destroy;
	return 0;
}

static int aux_output_match(struct perf_event *event)
{
	return 1;
}

static struct aux_pmu pt = {
	.pmu = {
		.task_ctx_nr = perf_sw_context,
		.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE,
		.attr_groups = softpmu_pt_groups,
		.nr_addr_filters = PT_FILTERS,
		.event_init = aux_event_init,
		.add = aux_add,
		.del = aux_del,
		.start = aux_start,
		.stop = aux_stop,
		.read = aux_read,
		.setup_aux = setup_aux,
		.free_aux = free_aux,
		.snapshot_aux = snapshot_aux,
		.addr_filters_validate = validate_filters,
		.addr_filters_sync = sync_filters,
		.aux_output_match = aux_output_match,
	},
};

static struct aux_pmu spe = {
	.pmu = {
		.task_ctx_nr = perf_sw_context,
		.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE,
		.attr_groups = softpmu_spe_groups,
		.event_init = aux_event_init,
		.add = aux_add,
		.del = aux_del,
		.start = aux_start,
		.stop = aux_stop,
		.read = aux_read,
		.setup_aux = setup_aux,
		.free_aux = free_aux,
	},
};

static int begin_pmu(struct aux_pmu *pmu, const char *name)
{
	int cpu;

	pmu->units = alloc_percpu(struct aux_unit);
	if (!pmu->units)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct aux_unit *unit = per_cpu_ptr(pmu->units, cpu);

		softpmu_timer_setup(&unit->timer, tick);
		unit->is_pt = pmu == &pt;
	}
	return softpmu_register(&pmu->pmu, name, -1, &pmu->registered);
}

static void end_pmu(struct aux_pmu *pmu)
{
	if (pmu->registered)
		perf_pmu_unregister(&pmu->pmu);
	free_percpu(pmu->units);
}

int softpmu_aux_init(void)
{
	int error = begin_pmu(&pt, "intel_pt");

	if (!error)
		error = begin_pmu(&spe, "arm_spe_0");
	if (error)
		softpmu_aux_exit();
	return error;
}

void softpmu_aux_exit(void)
{
	end_pmu(&spe);
	end_pmu(&pt);
}
