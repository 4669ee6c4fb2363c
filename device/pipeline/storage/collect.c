// Collective storage: the buffer of changes that wait, groups, thresholds and the one commit.
//
// Called by everything in the pipeline that stores, and by the tunnel, on the runtime's thread. The
// buffer holds keys and values from its start up and one dev_kv_change for each from its end down:
// change 0 is the topmost. Outside of a group no key occurs twice, so their order does not matter.
#include "pipeline/storage/collect.h"

#include "base/check.h"
#include "base/ckd.h"

#include <string.h>

#define MS 1000u

struct group {
    bool open;
    uint32_t mark; // changes before the group
    size_t mark_data;
    uint64_t mark_changes;
    uint64_t mark_usage[DEV_SPACE_COUNT];
    uint32_t large;
    enum base_status status; // first failure within
};

struct dev_collect {
    struct dev_kv_port port;
    uint8_t *buffer;
    size_t capacity;
    size_t data_end; // live and dead keys and values
    size_t live;     // bytes of keys and values that wait; values that are borrowed too
    uint32_t count;
    bool high;
    uint64_t oldest_us; // when the oldest change that waits was put
    uint64_t now_us;    // latest seen
    uint64_t retry_at_us;
    uint64_t retry_ms;
    uint64_t changes;
    uint64_t durable;
    uint64_t usage[DEV_SPACE_COUNT];
    uint64_t quota[DEV_SPACE_COUNT];
    struct group group;
    struct dev_collect_stats stats;
};

size_t dev_collect_bytes(void)
{
    return sizeof(struct dev_collect) + DEV_COLLECT_BUFFER;
}

enum base_status dev_collect_init(void *memory, size_t memory_bytes, const struct dev_kv_port *port,
                                  struct dev_collect **out)
{
    if (memory == NULL || memory_bytes < DEV_COLLECT_SMALLEST ||
        (uintptr_t)memory % _Alignof(struct dev_collect) != 0) {
        return BASE_ERR_INVALID;
    }
    struct dev_collect *collect = memory;
    memset(collect, 0, sizeof(*collect));
    collect->port = *port;
    collect->buffer = (uint8_t *)memory + sizeof(*collect);
    size_t room = memory_bytes - sizeof(*collect);
    room = room < DEV_COLLECT_BUFFER ? room : DEV_COLLECT_BUFFER;
    collect->capacity = room - room % _Alignof(struct dev_kv_change);
    *out = collect;
    return BASE_OK;
}

// ---- What waits

static struct dev_kv_change *change_at(const struct dev_collect *collect, uint32_t index)
{
    base_assert(index < DEV_KV_CHANGES_MAX);
    void *end = collect->buffer + collect->capacity; // aligned by _init
    return (struct dev_kv_change *)end - 1 - index;
}

static size_t change_bytes(const struct dev_kv_change *change)
{
    return (size_t)change->key_size + change->value_size;
}

static size_t room_left(const struct dev_collect *collect)
{
    return collect->capacity - collect->data_end - collect->count * sizeof(struct dev_kv_change);
}

static bool is_large(const struct dev_collect *collect, size_t value_size)
{
    return value_size > collect->capacity / 4;
}

static bool same_key(const struct dev_kv_change *change, struct dev_kv_key key)
{
    return change->space == key.space && change->key_size == key.size &&
           memcmp(change->key, key.data, key.size) == 0;
}

static struct dev_kv_key key_of(const struct dev_kv_change *change)
{
    return (struct dev_kv_key){change->space, change->key, change->key_size};
}

// The latest change of a key among [from, count); count when there is none.
static uint32_t find(const struct dev_collect *collect, uint32_t from, struct dev_kv_key key)
{
    for (uint32_t i = collect->count; i-- > from;) {
        if (same_key(change_at(collect, i), key)) {
            return i;
        }
    }
    return collect->count;
}

// Takes changes [from, from + count) out of the table; their keys and values stay as dead bytes.
static void forget(struct dev_collect *collect, uint32_t from, uint32_t count)
{
    base_assert(count > 0 && from + count <= collect->count);
    for (uint32_t i = from; i < from + count; i++) {
        collect->live -= change_bytes(change_at(collect, i));
    }
    uint32_t after = collect->count - from - count;
    struct dev_kv_change *lowest = change_at(collect, collect->count - 1);
    memmove(lowest + count, lowest, after * sizeof(*lowest));
    collect->count -= count;
    if (collect->count == 0) {
        collect->data_end = 0;
        collect->high = false;
    }
}

// Moves keys and values together. Data lies in the order of the changes, so nothing is overwritten
// that is still to be moved.
static void compact(struct dev_collect *collect)
{
    base_assert(!collect->group.open);
    size_t end = 0;
    for (uint32_t i = 0; i < collect->count; i++) {
        struct dev_kv_change *change = change_at(collect, i);
        bool copied = change->value != NULL && !is_large(collect, change->value_size);
        memmove(collect->buffer + end, change->key, change->key_size);
        change->key = collect->buffer + end;
        end += change->key_size;
        if (copied) {
            memmove(collect->buffer + end, change->value, change->value_size);
            change->value = collect->buffer + end;
            end += change->value_size;
        }
    }
    collect->data_end = end;
}

// Bytes a key has in the store, what waits included; 0: none.
static size_t stored_bytes(const struct dev_collect *collect, struct dev_kv_key key)
{
    uint32_t index = find(collect, 0, key);
    if (index < collect->count) {
        const struct dev_kv_change *change = change_at(collect, index);
        return change->value != NULL ? change_bytes(change) : 0;
    }
    size_t size = 0;
    enum base_status status = collect->port.get(collect->port.ctx, key, NULL, 0, &size);
    return status == BASE_OK || status == BASE_ERR_TOO_LARGE ? key.size + size : 0;
}

// ---- Committing

static void commit_failed(struct dev_collect *collect, uint64_t now_us)
{
    collect->stats.failed_commits++;
    collect->retry_ms = collect->retry_ms == 0 ? DEV_COLLECT_RETRY_FIRST_MS : collect->retry_ms * 2;
    if (collect->retry_ms > DEV_COLLECT_RETRY_LAST_MS) {
        collect->retry_ms = DEV_COLLECT_RETRY_LAST_MS;
    }
    collect->retry_at_us = base_sat_add_u64(now_us, collect->retry_ms * MS);
}

// Commits changes [0, count), which were the first `changes` ever made.
static enum base_status commit(struct dev_collect *collect, uint64_t now_us, uint32_t count,
                               uint64_t changes)
{
    if (count == 0) {
        return BASE_OK;
    }
    base_assert(count <= collect->count && changes <= collect->changes);
    enum base_status status =
        collect->port.commit(collect->port.ctx, change_at(collect, count - 1), count);
    if (status != BASE_OK) {
        commit_failed(collect, now_us);
        return status;
    }
    collect->stats.commits++;
    collect->stats.committed_changes += count;
    collect->durable = changes;
    collect->retry_ms = 0;
    collect->retry_at_us = 0;
    collect->oldest_us = now_us; // of a group that is being made, at most
    forget(collect, 0, count);
    return BASE_OK;
}

enum base_status dev_collect_flush(struct dev_collect *collect, uint64_t now_us)
{
    collect->now_us = now_us;
    if (collect->group.open) {
        return BASE_ERR_CONFLICT;
    }
    return commit(collect, now_us, collect->count, collect->changes);
}

static size_t bytes_threshold(const struct dev_collect *collect)
{
    size_t quarter = collect->capacity / 4;
    return quarter < DEV_COLLECT_BYTES_MAX ? quarter : DEV_COLLECT_BYTES_MAX;
}

static uint64_t due_us(const struct dev_collect *collect)
{
    if (collect->count == 0) {
        return UINT64_MAX;
    }
    bool now = collect->high || collect->count >= DEV_COLLECT_PUTS_MAX ||
               collect->live >= bytes_threshold(collect);
    uint64_t due =
        now ? 0 : base_sat_add_u64(collect->oldest_us, (uint64_t)DEV_COLLECT_AGE_MS * MS);
    return due > collect->retry_at_us ? due : collect->retry_at_us;
}

uint64_t dev_collect_step(struct dev_collect *collect, uint64_t now_us)
{
    base_assert(!collect->group.open);
    collect->now_us = now_us;
    if (due_us(collect) <= now_us) {
        (void)commit(collect, now_us, collect->count, collect->changes); // tried again when due
    }
    return due_us(collect);
}

// ---- Changes in

// Room for a change and `data` bytes; a full buffer is committed when that may be.
static enum base_status make_room(struct dev_collect *collect, size_t data)
{
    size_t need = data + sizeof(struct dev_kv_change);
    if (need > room_left(collect) && !collect->group.open) {
        compact(collect);
    }
    bool full = need > room_left(collect) || collect->count == DEV_KV_CHANGES_MAX;
    if (full && !collect->group.open && collect->retry_at_us <= collect->now_us) {
        (void)commit(collect, collect->now_us, collect->count, collect->changes);
        full = need > room_left(collect) || collect->count == DEV_KV_CHANGES_MAX;
    }
    if (full) {
        collect->stats.refused++;
        return BASE_ERR_BUSY;
    }
    return BASE_OK;
}

static const uint8_t *copy_in(struct dev_collect *collect, const void *bytes, size_t size)
{
    base_assert(size <= room_left(collect));
    uint8_t *at = collect->buffer + collect->data_end;
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    collect->data_end += size;
    return at;
}

// Adds the change; *wanted has the caller's pointers.
static enum base_status add(struct dev_collect *collect, const struct dev_kv_change *wanted)
{
    bool large = is_large(collect, wanted->value_size);
    base_assert(!large || collect->group.open); // it is borrowed until the group ends
    uint32_t mark = collect->group.open ? collect->group.mark : 0;
    if (large && collect->group.large == DEV_COLLECT_LARGE_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    BASE_TRY(make_room(collect, wanted->key_size + (large ? 0 : wanted->value_size)));
    size_t old = stored_bytes(collect, key_of(wanted));
    size_t new = wanted->value != NULL ? change_bytes(wanted) : 0;
    uint64_t usage = collect->usage[wanted->space];
    usage = usage > old ? usage - old : 0;
    uint64_t quota = collect->quota[wanted->space];
    if (quota > 0 && new > old && usage + new > quota) {
        collect->stats.over_quota++;
        return BASE_ERR_FULL;
    }
    uint32_t replaced = find(collect, mark, key_of(wanted));
    if (replaced < collect->count) {
        bool was_large = is_large(collect, change_at(collect, replaced)->value_size);
        collect->group.large -= was_large ? 1 : 0;
        forget(collect, replaced, 1);
    }
    if (collect->count == 0) {
        collect->oldest_us = collect->now_us;
    }
    struct dev_kv_change change = *wanted;
    change.key = copy_in(collect, wanted->key, wanted->key_size);
    if (wanted->value != NULL && !large) {
        change.value = copy_in(collect, wanted->value, wanted->value_size);
    }
    collect->group.large += large ? 1 : 0;
    collect->count++;
    *change_at(collect, collect->count - 1) = change;
    collect->live += change_bytes(&change);
    collect->usage[wanted->space] = usage + new;
    collect->changes++;
    collect->stats.puts++;
    return BASE_OK;
}

static enum base_status checked(const struct dev_kv_change *change)
{
    if ((unsigned)change->space >= DEV_SPACE_COUNT || change->key_size == 0) {
        return BASE_ERR_INVALID;
    }
    if (change->key_size > DEV_COLLECT_KEY_MAX || change->value_size > DEV_COLLECT_VALUE_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    return BASE_OK;
}

static enum base_status change_in(struct dev_collect *collect, uint64_t now_us,
                                  const struct dev_kv_change *change, bool high)
{
    collect->now_us = now_us;
    BASE_TRY(collect->group.status);
    bool alone = !collect->group.open && is_large(collect, change->value_size);
    if (alone) { // a group of one, which its _end commits
        dev_collect_begin(collect);
    }
    enum base_status status = checked(change);
    status = status == BASE_OK ? add(collect, change) : status;
    if (collect->group.open) {
        collect->group.status = status;
    }
    if (alone) {
        return dev_collect_end(collect, now_us);
    }
    collect->high = collect->high || (high && status == BASE_OK);
    return status;
}

enum base_status dev_collect_put(struct dev_collect *collect, uint64_t now_us,
                                 struct dev_kv_key key, struct base_span value, bool high)
{
    static const uint8_t nothing[1] = {0};
    const struct dev_kv_change change = {
        .space = key.space,
        .key = key.data,
        .key_size = key.size < UINT32_MAX ? (uint32_t)key.size : UINT32_MAX,
        .value = value.data != NULL ? value.data : nothing,
        .value_size = value.size < UINT32_MAX ? (uint32_t)value.size : UINT32_MAX,
    };
    return change_in(collect, now_us, &change, high);
}

enum base_status dev_collect_delete(struct dev_collect *collect, uint64_t now_us,
                                    struct dev_kv_key key, bool high)
{
    const struct dev_kv_change change = {
        .space = key.space,
        .key = key.data,
        .key_size = key.size < UINT32_MAX ? (uint32_t)key.size : UINT32_MAX,
    };
    return change_in(collect, now_us, &change, high);
}

// ---- Groups

void dev_collect_begin(struct dev_collect *collect)
{
    base_assert(!collect->group.open);
    // Within the group nothing may be moved or committed: make what room there is now.
    if (room_left(collect) < collect->capacity / 2) {
        compact(collect);
    }
    bool crowded =
        room_left(collect) < collect->capacity / 2 || collect->count > DEV_KV_CHANGES_MAX / 2;
    if (crowded && collect->retry_at_us <= collect->now_us) {
        (void)commit(collect, collect->now_us, collect->count, collect->changes);
    }
    collect->group = (struct group){
        .open = true,
        .mark = collect->count,
        .mark_data = collect->data_end,
        .mark_changes = collect->changes,
    };
    memcpy(collect->group.mark_usage, collect->usage, sizeof(collect->usage));
}

// Undoes the group: its changes are the last ones and its data the topmost.
static void undo(struct dev_collect *collect)
{
    base_assert(collect->group.open && collect->group.mark <= collect->count);
    const struct group *group = &collect->group;
    size_t data = group->mark_data;
    if (collect->count > group->mark) {
        forget(collect, group->mark, collect->count - group->mark);
    }
    collect->data_end = collect->count > 0 ? data : 0;
    collect->changes = group->mark_changes;
    memcpy(collect->usage, group->mark_usage, sizeof(collect->usage));
    collect->stats.abandoned++;
    collect->group = (struct group){0};
}

void dev_collect_abandon(struct dev_collect *collect)
{
    base_assert(collect->group.open);
    undo(collect);
}

// What waited before the group is committed first, so that the group stands alone and can fail
// alone.
static enum base_status end_large(struct dev_collect *collect, uint64_t now_us)
{
    base_assert(collect->group.large > 0);
    uint32_t before = collect->group.mark;
    uint64_t changes = collect->group.mark_changes;
    enum base_status status = commit(collect, now_us, before, changes);
    if (status == BASE_OK) {
        collect->group.mark = 0;
        collect->group.mark_data = 0;
        status = commit(collect, now_us, collect->count, collect->changes);
    }
    if (status != BASE_OK) {
        undo(collect);
        return status;
    }
    collect->group = (struct group){0};
    return BASE_OK;
}

enum base_status dev_collect_end(struct dev_collect *collect, uint64_t now_us)
{
    struct group *group = &collect->group;
    base_assert(group->open);
    collect->now_us = now_us;
    if (group->status != BASE_OK) {
        enum base_status status = group->status;
        undo(collect);
        return status;
    }
    if (group->large > 0) {
        return end_large(collect, now_us);
    }
    for (uint32_t i = group->mark; i-- > 0;) { // what the group replaced
        const struct dev_kv_change *old = change_at(collect, i);
        if (find(collect, group->mark, key_of(old)) < collect->count) {
            forget(collect, i, 1);
            group->mark--;
        }
    }
    *group = (struct group){0};
    return BASE_OK;
}

// ---- Reading

enum base_status dev_collect_get(struct dev_collect *collect, struct dev_kv_key key, void *out,
                                 size_t capacity, size_t *out_size)
{
    if ((unsigned)key.space >= DEV_SPACE_COUNT || key.size == 0 || key.size > DEV_COLLECT_KEY_MAX) {
        return BASE_ERR_INVALID;
    }
    uint32_t index = find(collect, 0, key);
    if (index == collect->count) {
        return collect->port.get(collect->port.ctx, key, out, capacity, out_size);
    }
    const struct dev_kv_change *change = change_at(collect, index);
    if (change->value == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_size = change->value_size;
    if (change->value_size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    if (change->value_size > 0) {
        memcpy(out, change->value, change->value_size);
    }
    return BASE_OK;
}

enum base_status dev_collect_scan(struct dev_collect *collect, uint64_t now_us,
                                  const struct dev_kv_range *range, dev_kv_visit_fn visit,
                                  void *visit_ctx)
{
    if ((unsigned)range->space >= DEV_SPACE_COUNT || range->prefix_size > DEV_COLLECT_KEY_MAX ||
        range->from_size > DEV_COLLECT_KEY_MAX) {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(dev_collect_flush(collect, now_us));
    return collect->port.scan(collect->port.ctx, range, visit, visit_ctx);
}

static bool count_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                      size_t value_size)
{
    (void)key;
    (void)value;
    uint64_t *bytes = ctx;
    *bytes += key_size + value_size;
    return true;
}

enum base_status dev_collect_boot(struct dev_collect *collect, uint64_t now_us)
{
    for (unsigned space = 0; space < DEV_SPACE_COUNT; space++) {
        const struct dev_kv_range all = {.space = (enum dev_space)space};
        collect->usage[space] = 0;
        BASE_TRY(dev_collect_scan(collect, now_us, &all, count_row, &collect->usage[space]));
    }
    return BASE_OK;
}

void dev_collect_quota(struct dev_collect *collect, enum dev_space space, uint64_t bytes)
{
    base_assert((unsigned)space < DEV_SPACE_COUNT);
    collect->quota[space] = bytes;
}

uint64_t dev_collect_changes(const struct dev_collect *collect)
{
    return collect->changes;
}

uint64_t dev_collect_durable(const struct dev_collect *collect)
{
    return collect->durable;
}

uint64_t dev_collect_usage(const struct dev_collect *collect, enum dev_space space)
{
    return collect->usage[space];
}

void dev_collect_stats(const struct dev_collect *collect, struct dev_collect_stats *out)
{
    *out = collect->stats;
    out->bytes_waiting = collect->live;
    out->bytes_stored = 0;
    for (unsigned space = 0; space < DEV_SPACE_COUNT; space++) {
        out->bytes_stored += collect->usage[space];
    }
}

bool dev_collect_validate(const struct dev_collect *collect)
{
    size_t live = 0;
    size_t copied = 0;
    for (uint32_t i = 0; i < collect->count; i++) {
        const struct dev_kv_change *change = change_at(collect, i);
        bool large = is_large(collect, change->value_size);
        live += change_bytes(change);
        copied += change->key_size + (large ? 0 : change->value_size);
        if (change->key < collect->buffer ||
            change->key + change->key_size > collect->buffer + collect->data_end) {
            return false;
        }
    }
    bool fits =
        collect->data_end + collect->count * sizeof(struct dev_kv_change) <= collect->capacity;
    return fits && live == collect->live && copied <= collect->data_end &&
           collect->count <= DEV_KV_CHANGES_MAX && collect->durable <= collect->changes &&
           (collect->group.open || collect->group.large == 0);
}
