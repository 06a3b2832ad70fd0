// SPDX-License-Identifier: GPL-2.0-only
/* Scripts: loaded through debugfs, checked as a whole, then played op by op. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "softpmu.h"

#define SCRIPT_BYTES_MAX (64 << 20)
#define LOAD_BYTES_MIN (64 << 10)
/* Ops that one look may pass over. */
#define OPS_MAX 100000

static struct softpmu_script scripts[SOFTPMU_FILES];
static const char *const file_names[SOFTPMU_FILES] = { "intel_pt", "arm_spe_0", "ibs_op", "lbr", "memory" };
static DEFINE_MUTEX(scripts_lock);
static struct dentry *directory;

static const struct softpmu_op *op_at(const u8 *bytes, size_t at)
{
	return (const struct softpmu_op *)(bytes + at);
}

static size_t next_op(const u8 *bytes, size_t at)
{
	return at + sizeof(struct softpmu_op) + ALIGN((size_t)op_at(bytes, at)->bytes, 8);
}

static u32 payload_bytes(u16 code)
{
	switch (code) {
	case SOFTPMU_TIME:
	case SOFTPMU_LOOP:
	case SOFTPMU_WAIT:
	case SOFTPMU_FLAGS:
	case SOFTPMU_RATE:
		return 8;
	case SOFTPMU_TASK:
		return SOFTPMU_TASK_BYTES;
	default:
		return 0;
	}
}

/* Whether an op begins at `target`, which lies before `end`. */
static bool begins_op(const u8 *bytes, size_t target, size_t end)
{
	size_t at;

	for (at = sizeof(struct softpmu_header); at < end; at = next_op(bytes, at)) {
		if (at == target)
			return true;
	}
	return false;
}

static const char *fault_of(const u8 *bytes, size_t size)
{
	struct softpmu_time time = {};
	size_t at = sizeof(struct softpmu_header);

	if (size < at || memcmp(bytes, SOFTPMU_MAGIC, 8))
		return "no script";
	while (at < size) {
		const struct softpmu_op *op = op_at(bytes, at);
		const void *payload = op + 1;

		if (size - at < sizeof(*op) || size - at - sizeof(*op) < op->bytes || next_op(bytes, at) > size)
			return "an op reaches beyond the end";
		if (op->code > SOFTPMU_LOOP)
			return "unknown op";
		if (op->code != SOFTPMU_DATA && op->bytes != payload_bytes(op->code))
			return "an op with another size than it should have";
		if (op->code == SOFTPMU_LOOP && !begins_op(bytes, ((const struct softpmu_loop *)payload)->target, at))
			return "a loop to no op before it";
		if (op->code == SOFTPMU_TIME)
			time = *(const struct softpmu_time *)payload;
		if (op->code == SOFTPMU_DATA) {
			if (!op->bytes || time.bytes > 8 || time.bytes > op->bytes ||
			    time.offset > op->bytes - time.bytes)
				return "a time outside its piece";
			time = (struct softpmu_time){};
		}
		at = next_op(bytes, at);
	}
	return NULL;
}

void softpmu_player_begin(struct softpmu_player *player, enum softpmu_file file)
{
	memset(player, 0, sizeof(*player));
	mutex_lock(&scripts_lock);
	player->script = &scripts[file];
	atomic_inc(&player->script->players);
	mutex_unlock(&scripts_lock);
	player->at = sizeof(struct softpmu_header);
}

void softpmu_player_end(struct softpmu_player *player)
{
	atomic_dec(&player->script->players);
}

struct softpmu_step softpmu_player_look(struct softpmu_player *player)
{
	const u8 *bytes = player->script->bytes;
	struct softpmu_step end = { .code = SOFTPMU_END };
	unsigned int passed;

	for (passed = 0; bytes && passed < OPS_MAX && player->at < player->script->size; ++passed) {
		const struct softpmu_op *op = op_at(bytes, player->at);
		const void *payload = op + 1;

		switch (op->code) {
		case SOFTPMU_END:
			return end;
		case SOFTPMU_TIME:
			player->time = *(const struct softpmu_time *)payload;
			break;
		case SOFTPMU_SYNC:
			player->lost = false;
			break;
		case SOFTPMU_RATE:
			player->rate = *(const u64 *)payload;
			break;
		case SOFTPMU_TASK:
			memcpy(player->task, payload, sizeof(player->task));
			break;
		case SOFTPMU_LOOP: {
			const struct softpmu_loop *loop = payload;

			if (!loop->times || player->loops < loop->times) {
				player->loops += loop->times ? 1 : 0;
				player->at = loop->target;
				continue;
			}
			player->loops = 0;
			break;
		}
		default:
			if (!player->lost)
				return (struct softpmu_step){ op->code, payload, op->bytes };
			player->time.bytes = 0;
		}
		player->at = next_op(bytes, player->at);
	}
	return end;
}

void softpmu_player_take(struct softpmu_player *player, const struct softpmu_step *step)
{
	player->at = next_op(player->script->bytes, player->at);
	if (step->code == SOFTPMU_DATA)
		player->time.bytes = 0;
}

bool softpmu_player_piece(struct softpmu_player *player, struct softpmu_step *step)
{
	unsigned int passed;

	for (passed = 0; passed < OPS_MAX; ++passed) {
		*step = softpmu_player_look(player);
		if (step->code == SOFTPMU_END)
			return false;
		softpmu_player_take(player, step);
		if (step->code == SOFTPMU_DATA)
			return true;
	}
	return false;
}

/* A file that is being written. */
struct load {
	u8 *bytes;
	size_t size;
	size_t capacity;
};

static int load_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct load), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

static ssize_t load_write(struct file *file, const char __user *from, size_t count, loff_t *position)
{
	struct load *load = file->private_data;

	if (count > SCRIPT_BYTES_MAX - load->size)
		return -EFBIG;
	if (load->size + count > load->capacity) {
		size_t capacity = max_t(size_t, 2 * (load->size + count), LOAD_BYTES_MIN);
		u8 *bytes = vmalloc(capacity);

		if (!bytes)
			return -ENOMEM;
		if (load->size)
			memcpy(bytes, load->bytes, load->size);
		vfree(load->bytes);
		load->bytes = bytes;
		load->capacity = capacity;
	}
	if (copy_from_user(load->bytes + load->size, from, count))
		return -EFAULT;
	load->size += count;
	*position += count;
	return count;
}

/* Called by close(2), which returns the error. */
static int load_flush(struct file *file, fl_owner_t owner)
{
	struct load *load = file->private_data;
	struct softpmu_script *script = file_inode(file)->i_private;
	const char *fault;
	int error = 0;

	if (!load->size)
		return 0;
	fault = fault_of(load->bytes, load->size);
	if (fault) {
		pr_info("%pD: %s\n", file, fault);
		return -EINVAL;
	}
	mutex_lock(&scripts_lock);
	if (atomic_read(&script->players)) {
		error = -EBUSY;
	} else {
		vfree(script->bytes);
		script->bytes = load->bytes;
		script->size = load->size;
		memset(load, 0, sizeof(*load));
	}
	mutex_unlock(&scripts_lock);
	return error;
}

static int load_release(struct inode *inode, struct file *file)
{
	struct load *load = file->private_data;

	vfree(load->bytes);
	kfree(load);
	return 0;
}

static const struct file_operations load_operations = {
	.owner = THIS_MODULE,
	.open = load_open,
	.write = load_write,
	.flush = load_flush,
	.release = load_release,
};

static int status_show(struct seq_file *file, void *unused)
{
	int index;

#define SHOW(name) seq_printf(file, #name " %lld\n", (long long)atomic64_read(&softpmu_counts.name))
	SHOW(starts);
	SHOW(stops);
	SHOW(aux_records);
	SHOW(aux_bytes);
	SHOW(truncations);
	SHOW(samples);
	SHOW(samples_in_nmi);
	SHOW(nmis_lost);
#undef SHOW
	seq_printf(file, "filters %s\n", softpmu_filters);
	for (index = 0; index < SOFTPMU_FILES; ++index)
		seq_printf(file, "script %s %zu\n", file_names[index], scripts[index].size);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(status);

int softpmu_scripts_init(void)
{
	int index;

	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	if (IS_ERR(directory))
		return PTR_ERR(directory);
	/* Not through the proxy of debugfs_create_file, which knows no flush. */
	for (index = 0; index < SOFTPMU_FILES; ++index)
		debugfs_create_file_unsafe(file_names[index], 0200, directory, &scripts[index], &load_operations);
	debugfs_create_file("status", 0400, directory, NULL, &status_fops);
	return 0;
}

void softpmu_scripts_exit(void)
{
	int index;

	debugfs_remove(directory);
	for (index = 0; index < SOFTPMU_FILES; ++index)
		vfree(scripts[index].bytes);
}
