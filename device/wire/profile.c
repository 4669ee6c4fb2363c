// The profile codec and the set digest.
//
// Parsing is on the gateway's check-in path, digesting on the device's: neither allocates nor
// copies. Any thread.
#include "wire/profile.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"

#define REFUSED_SALT 0x7265667573656421ull // no task's term is one of a refusal
#define VERSION_SALT 0x76657273696f6e21ull // ... and no mark of a version one of a statement
#define FLAGS_SAID   (WIRE_PROFILE_FLAG_OWN_PACE | WIRE_PROFILE_FLAG_AGAIN)

uint64_t wire_profile_term(uint64_t task_id, uint64_t version_id, uint64_t blocked_version_id)
{
    if (version_id == 0 && blocked_version_id == 0) {
        return 0;
    }
    uint64_t term = base_mix64(task_id);
    term = base_mix64(term ^ version_id);
    return base_mix64(term ^ blocked_version_id);
}

uint64_t wire_profile_mark(const uint8_t *envelope, size_t size)
{
    return base_hash64(envelope, size);
}

uint64_t wire_profile_version_mark(uint64_t task_id, uint64_t version_id)
{
    return base_mix64(base_mix64(task_id ^ VERSION_SALT) ^ version_id);
}

uint64_t wire_profile_refused_term(uint64_t mark)
{
    return base_mix64(base_mix64(mark) ^ REFUSED_SALT);
}

bool wire_profile_refuses(const struct wire_profile *profile, uint64_t mark)
{
    base_assert(profile->refused_count <= WIRE_PROFILE_REFUSED_MAX);
    struct base_reader reader;
    base_reader_init(&reader, profile->refused, profile->refused_count * sizeof(mark));
    for (uint32_t i = 0; i < profile->refused_count; i++) {
        if (base_reader_u64(&reader) == mark) {
            return true;
        }
    }
    return false;
}

static void write_pairs(struct base_writer *writer, const struct wire_profile_pair *pairs,
                        uint32_t count, uint8_t version)
{
    base_assert(count <= WIRE_PROFILE_TASKS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        base_writer_u64(writer, pairs[i].task_id);
        base_writer_u64(writer, pairs[i].version_id);
        base_writer_u64(writer, pairs[i].blocked_version_id);
        base_writer_varint(writer, pairs[i].floor);
        if (version == WIRE_PROFILE_VERSION) {
            base_writer_varint(writer, pairs[i].approved);
        }
    }
}

// Those that a profile with limits, or of version 1, may have.
static unsigned flags_of(bool limits)
{
    return WIRE_PROFILE_FLAG_PAIRS | (limits ? FLAGS_SAID : 0);
}

static uint8_t version_of(const struct wire_profile *profile)
{
    base_assert(profile->tasks_max <= WIRE_PROFILE_TASKS_MAX);
    if (profile->version != 0) {
        return profile->version;
    }
    return profile->tasks_max != 0 ? WIRE_PROFILE_VERSION : WIRE_PROFILE_VERSION_FIRST;
}

static bool has_limits(uint8_t version)
{
    return version != WIRE_PROFILE_VERSION_FIRST;
}

enum base_status wire_profile_encode(const struct wire_profile *profile,
                                     const struct wire_profile_pair *pairs, uint8_t *out,
                                     size_t capacity, size_t *out_size)
{
    static const uint8_t no_attrs[1] = {0};
    bool bare = profile->attrs_bytes == 0;
    const uint8_t *attrs = bare ? no_attrs : profile->attrs;
    size_t attrs_bytes = bare ? sizeof no_attrs : profile->attrs_bytes;
    if (profile->task_count > WIRE_PROFILE_TASKS_MAX || attrs_bytes > WIRE_ATTRS_BYTES_MAX ||
        profile->tasks_max > WIRE_PROFILE_TASKS_MAX ||
        profile->refused_count > WIRE_PROFILE_REFUSED_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    uint8_t version = version_of(profile);
    bool limits = has_limits(version);
    if (version > WIRE_PROFILE_VERSION || limits != (profile->tasks_max != 0) ||
        (profile->flags & ~flags_of(limits)) != 0 || limits != (profile->interval_s != 0) ||
        (!limits && profile->refused_count != 0)) {
        return BASE_ERR_INVALID;
    }
    _Static_assert((FLAGS_SAID & WIRE_PROFILE_FLAG_PAIRS) == 0, "the pairs themselves say theirs");
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_PROFILE_BYTES_MAX ? capacity : WIRE_PROFILE_BYTES_MAX);
    base_writer_u8(&writer, version);
    base_writer_u8(&writer, (uint8_t)((profile->flags & FLAGS_SAID) |
                                      (pairs != NULL ? WIRE_PROFILE_FLAG_PAIRS : 0)));
    if (limits) {
        base_writer_varint(&writer, profile->tasks_max);
        base_writer_varint(&writer, profile->interval_s);
    }
    base_writer_varint(&writer, profile->task_count);
    base_writer_u64(&writer, profile->digest);
    base_writer_varint(&writer, attrs_bytes);
    base_writer_bytes(&writer, attrs, attrs_bytes);
    if (pairs != NULL) {
        write_pairs(&writer, pairs, profile->task_count, version);
    }
    if (pairs != NULL && limits) {
        base_writer_varint(&writer, profile->refused_count);
        base_writer_bytes(&writer, profile->refused, profile->refused_count * sizeof(uint64_t));
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

// Behind the flags, from version 2 on.
static enum base_status parse_limits(struct base_reader *reader, struct wire_profile *profile)
{
    uint64_t tasks_max = base_reader_varint(reader);
    uint64_t interval_s = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (tasks_max > WIRE_PROFILE_TASKS_MAX || interval_s > UINT32_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (tasks_max == 0 || interval_s == 0) {
        return BASE_ERR_INVALID;
    }
    profile->tasks_max = (uint32_t)tasks_max;
    profile->interval_s = (uint32_t)interval_s;
    return BASE_OK;
}

static enum base_status parse_frame(struct base_reader *reader, struct wire_profile *profile)
{
    base_assert(profile->tasks_max == 0 && profile->interval_s == 0); // as of version 1
    profile->version = base_reader_u8(reader);
    profile->flags = base_reader_u8(reader);
    BASE_TRY(reader->status);
    if (profile->version < WIRE_PROFILE_VERSION_FIRST || profile->version > WIRE_PROFILE_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    bool limits = has_limits(profile->version);
    if ((profile->flags & ~flags_of(limits)) != 0) {
        return BASE_ERR_INVALID;
    }
    if (limits) {
        BASE_TRY(parse_limits(reader, profile));
    }
    uint64_t task_count = base_reader_varint(reader);
    profile->digest = base_reader_u64(reader);
    uint64_t attrs_bytes = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (task_count > WIRE_PROFILE_TASKS_MAX || attrs_bytes > WIRE_ATTRS_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (attrs_bytes == 0) {
        return BASE_ERR_INVALID; // no attributes is a block with a count of zero
    }
    profile->task_count = (uint32_t)task_count;
    profile->attrs_bytes = (size_t)attrs_bytes;
    profile->attrs = base_reader_bytes(reader, (size_t)attrs_bytes);
    return reader->status;
}

// Is none there twice? A list that ascends is seen at once, any other costs at most
// WIRE_PROFILE_TASKS_MAX^2 / 2 comparisons.
static bool all_differ(const uint64_t *items, uint32_t count)
{
    base_assert(count <= WIRE_PROFILE_TASKS_MAX);
    uint32_t ascending = 1;
    while (ascending < count && items[ascending] > items[ascending - 1]) {
        ascending++;
    }
    for (uint32_t i = ascending; i < count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (items[k] == items[i]) {
                return false;
            }
        }
    }
    return true;
}

static enum base_status parse_refused(struct base_reader *reader, struct wire_profile *profile)
{
    base_assert(profile->tasks_max != 0);
    uint64_t marks[WIRE_PROFILE_REFUSED_MAX];
    uint64_t count = base_reader_varint(reader);
    if (count > WIRE_PROFILE_REFUSED_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    profile->refused_count = (uint32_t)count;
    profile->refused = reader->at;
    for (uint32_t i = 0; i < profile->refused_count; i++) {
        marks[i] = base_reader_u64(reader);
    }
    BASE_TRY(reader->status);
    return all_differ(marks, profile->refused_count) ? BASE_OK : BASE_ERR_INVALID;
}

static enum base_status parse_pairs(struct base_reader *reader, struct wire_profile *profile)
{
    struct wire_profile_pair pair;
    uint64_t tasks[WIRE_PROFILE_TASKS_MAX];
    profile->pairs = reader->at;
    for (uint32_t i = 0; i < profile->task_count; i++) {
        BASE_TRY(wire_profile_pair_next(profile, reader, &pair));
        tasks[i] = pair.task_id;
    }
    if (!all_differ(tasks, profile->task_count)) {
        return BASE_ERR_INVALID;
    }
    profile->pairs_bytes = (size_t)(reader->at - profile->pairs);
    return profile->tasks_max != 0 ? parse_refused(reader, profile) : BASE_OK;
}

enum base_status wire_profile_parse(const uint8_t *bytes, size_t size, struct wire_profile *out)
{
    if (size > WIRE_PROFILE_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct wire_profile profile = {0};
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    BASE_TRY(parse_frame(&reader, &profile));
    if ((profile.flags & WIRE_PROFILE_FLAG_PAIRS) != 0) {
        BASE_TRY(parse_pairs(&reader, &profile));
    }
    BASE_TRY(base_reader_finish(&reader));
    *out = profile;
    return BASE_OK;
}

enum base_status wire_profile_pair_next(const struct wire_profile *profile,
                                        struct base_reader *reader, struct wire_profile_pair *out)
{
    struct wire_profile_pair pair;
    pair.task_id = base_reader_u64(reader);
    pair.version_id = base_reader_u64(reader);
    pair.blocked_version_id = base_reader_u64(reader);
    pair.floor = base_reader_varint(reader);
    pair.approved = profile->version == WIRE_PROFILE_VERSION ? base_reader_varint(reader) : 0;
    BASE_TRY(reader->status);
    *out = pair;
    return BASE_OK;
}
