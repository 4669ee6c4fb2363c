// The profile codec and the set digest.
//
// Parsing is on the gateway's check-in path, digesting on the device's: neither allocates nor
// copies. Any thread.
#include "wire/profile.h"

#include "base/prng.h"

uint64_t wire_profile_term(uint64_t task_id, uint64_t version_id, uint64_t blocked_version_id)
{
    if (version_id == 0 && blocked_version_id == 0) {
        return 0;
    }
    uint64_t term = base_mix64(task_id);
    term = base_mix64(term ^ version_id);
    return base_mix64(term ^ blocked_version_id);
}

static void write_pairs(struct base_writer *writer, const struct wire_profile_pair *pairs,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        base_writer_u64(writer, pairs[i].task_id);
        base_writer_u64(writer, pairs[i].version_id);
        base_writer_u64(writer, pairs[i].blocked_version_id);
        base_writer_varint(writer, pairs[i].floor);
    }
}

enum base_status wire_profile_encode(const struct wire_profile *profile,
                                     const struct wire_profile_pair *pairs, uint8_t *out,
                                     size_t capacity, size_t *out_size)
{
    static const uint8_t no_attrs[1] = {0};
    bool bare = profile->attrs_bytes == 0;
    const uint8_t *attrs = bare ? no_attrs : profile->attrs;
    size_t attrs_bytes = bare ? sizeof no_attrs : profile->attrs_bytes;
    if (profile->task_count > WIRE_PROFILE_TASKS_MAX || attrs_bytes > WIRE_ATTRS_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if ((profile->flags & ~WIRE_PROFILE_FLAG_PAIRS) != 0) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_PROFILE_BYTES_MAX ? capacity : WIRE_PROFILE_BYTES_MAX);
    base_writer_u8(&writer, WIRE_PROFILE_VERSION);
    base_writer_u8(&writer, pairs != NULL ? WIRE_PROFILE_FLAG_PAIRS : 0);
    base_writer_varint(&writer, profile->task_count);
    base_writer_u64(&writer, profile->digest);
    base_writer_varint(&writer, attrs_bytes);
    base_writer_bytes(&writer, attrs, attrs_bytes);
    if (pairs != NULL) {
        write_pairs(&writer, pairs, profile->task_count);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static enum base_status parse_frame(struct base_reader *reader, struct wire_profile *profile)
{
    uint8_t version = base_reader_u8(reader);
    profile->flags = base_reader_u8(reader);
    BASE_TRY(reader->status);
    if (version != WIRE_PROFILE_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    if ((profile->flags & ~WIRE_PROFILE_FLAG_PAIRS) != 0) {
        return BASE_ERR_INVALID;
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
        profile.pairs_bytes = base_reader_left(&reader);
        profile.pairs = reader.at;
        struct wire_profile_pair pair;
        for (uint32_t i = 0; i < profile.task_count; i++) {
            BASE_TRY(wire_profile_pair_next(&reader, &pair));
        }
    }
    BASE_TRY(base_reader_finish(&reader));
    *out = profile;
    return BASE_OK;
}

enum base_status wire_profile_pair_next(struct base_reader *reader, struct wire_profile_pair *out)
{
    struct wire_profile_pair pair;
    pair.task_id = base_reader_u64(reader);
    pair.version_id = base_reader_u64(reader);
    pair.blocked_version_id = base_reader_u64(reader);
    pair.floor = base_reader_varint(reader);
    BASE_TRY(reader->status);
    *out = pair;
    return BASE_OK;
}
