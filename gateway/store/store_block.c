// Blocks of device records; see store_block.h for how they lie. Called by the files of the packed
// table (store_packed.c, packed_compact.c, packed_read.c), by store_make.c for new files and by
// store_check.c, on the thread of whoever reads or writes.
#include "store/store_block.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY_VERSION 2u
#define KEY_BYTES   (1u + 6u)
#define ID_BYTES    8u
#define SEAL_BYTES  4u
#define TAIL_BYTES  (ID_BYTES + SEAL_BYTES)
#define COUNT_AT    (GW_BLOCK_LANES * 8u)
#define ENDS_AT     (COUNT_AT + 1u)
#define SHORTENED   0x8000u // in an end
#define END_MASK    0x7fffu
#define SHORTEN_MIN 12u // bytes, of fewer nothing is won

_Static_assert(GW_BLOCK_BYTES <= END_MASK, "an end has place");

_Static_assert(GW_BLOCK_RECORDS <= UINT8_MAX, "a byte counts them");
// Two nodes of a leaf (mdb.c: 8 bytes of head, 2 of the page's index) and the page's 16.
_Static_assert(16 + 2 * (2 + 8 + KEY_BYTES + 1 + GW_BLOCK_BYTES) <= 4096, "two to a page");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers of a value are copied");

static size_t head_bytes(uint32_t count)
{
    return ENDS_AT + 2u * (size_t)count;
}

static void key_write(uint8_t version, uint64_t number, uint8_t out[KEY_BYTES])
{
    out[0] = version;
    for (unsigned i = 1; i < KEY_BYTES; i++) {
        out[i] = (uint8_t)(number >> (8 * (KEY_BYTES - 1 - i)));
    }
}

struct gw_key gw_block_key(uint64_t number)
{
    struct gw_key key = {.size = KEY_BYTES};
    key_write(KEY_VERSION, number, key.bytes);
    return key;
}

// The version is not asked for: seals are over it, and damage there leaves the number.
bool gw_block_key_read(MDB_val key, uint64_t *out_number)
{
    if (key.mv_size != KEY_BYTES) {
        return false;
    }
    const uint8_t *bytes = key.mv_data;
    uint64_t number = 0;
    for (unsigned i = 1; i < KEY_BYTES; i++) {
        number = number << 8 | bytes[i];
    }
    *out_number = number;
    return number > 0 && number <= GW_BLOCK_NUMBER_MAX;
}

struct seal_of {
    uint64_t number;
    uint64_t id;
    uint32_t index;
};

static void seal(const struct seal_of *of, struct base_span bytes, uint8_t out[SEAL_BYTES])
{
    uint8_t key[KEY_BYTES + 1 + ID_BYTES];
    uint8_t all[BASE_SEAL_BYTES];
    key_write(KEY_VERSION, of->number, key);
    key[KEY_BYTES] = (uint8_t)of->index;
    memcpy(key + KEY_BYTES + 1, &of->id, ID_BYTES);
    base_record_seal(gw_table_name(GW_TABLE_DEVICES), (struct base_span){key, sizeof(key)}, bytes,
                     all);
    memcpy(out, all, SEAL_BYTES);
}

// ---- Making one

void gw_block_begin(struct gw_block *block, uint64_t number)
{
    block->number = number;
    memset(block->lanes, 0, sizeof(block->lanes));
    block->count = 0;
    block->model_count = 0;
    block->body_bytes = 0;
}

void gw_block_done(struct gw_block *block)
{
    free(block->body);
    *block = (struct gw_block){.body = NULL};
}

bool gw_block_has_room(const struct gw_block *block, size_t bytes)
{
    size_t all = head_bytes(block->count + 1) + block->body_bytes + TAIL_BYTES;
    return block->count < GW_BLOCK_RECORDS && all <= GW_BLOCK_BYTES &&
           bytes <= GW_BLOCK_BYTES - all;
}

static bool body_grow(struct gw_block *block, size_t more)
{
    if (more <= block->body_room - block->body_bytes) {
        return true;
    }
    size_t room = block->body_bytes + more;
    room = room < GW_BLOCK_BYTES ? GW_BLOCK_BYTES : room;
    uint8_t *body = realloc(block->body, room);
    if (body == NULL) {
        return false;
    }
    block->body = body;
    block->body_room = room;
    return true;
}

// The model of records of this size; NULL: there is none.
static const struct gw_block_model *model_of(const struct gw_block *block, size_t size)
{
    for (uint32_t i = 0; i < block->model_count; i++) {
        if (block->models[i].size == size) {
            return &block->models[i];
        }
    }
    return NULL;
}

// The bytes as what they are other than the model's, if that is shorter; how many. 0: it is not.
static size_t shorten(const struct gw_block *block, const struct gw_block_model *model,
                      struct base_span bytes, uint8_t out[GW_BLOCK_BYTES])
{
    const uint8_t *of = block->body + model->at;
    const size_t bits = (bytes.size + 7) / 8;
    size_t size = 1 + bits;
    base_assert(bytes.size == model->size && size < bytes.size);
    out[0] = model->index;
    memset(out + 1, 0, bits);
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i] == of[i]) {
            continue;
        }
        if (size + 1 >= bytes.size) {
            return 0;
        }
        out[1 + i / 8] |= (uint8_t)(1u << i % 8);
        out[size++] = bytes.data[i];
    }
    return size;
}

// Bytes go into the body, shortened where they can be.
static bool put_bytes(struct gw_block *block, struct base_span bytes)
{
    uint8_t *to = block->body + block->body_bytes;
    const bool small = bytes.size >= SHORTEN_MIN && bytes.size <= GW_BLOCK_BYTES / 2;
    const struct gw_block_model *model = small ? model_of(block, bytes.size) : NULL;
    uint8_t shorter[GW_BLOCK_BYTES];
    base_assert(block->body_room - block->body_bytes >= bytes.size);
    const size_t size = model != NULL ? shorten(block, model, bytes, shorter) : 0;
    if (size > 0) {
        memcpy(to, shorter, size);
        block->body_bytes += size;
        return true;
    }
    if (bytes.size > 0) {
        memcpy(to, bytes.data, bytes.size);
    }
    if (small && model == NULL && block->model_count < GW_BLOCK_MODELS) {
        block->models[block->model_count++] =
            (struct gw_block_model){.at = (uint16_t)block->body_bytes,
                                    .size = (uint16_t)bytes.size,
                                    .index = (uint8_t)block->count};
    }
    block->body_bytes += bytes.size;
    return false;
}

int gw_block_add(struct gw_block *block, uint64_t id, struct base_span bytes, bool damaged,
                 uint64_t *out_place)
{
    const struct seal_of of = {block->number, id, block->count};
    bytes = damaged ? (struct base_span){NULL, 0} : bytes;
    base_assert(block->number > 0);
    base_assert(block->count == 0 || gw_block_has_room(block, bytes.size));
    if (!body_grow(block, bytes.size + TAIL_BYTES)) {
        return ENOMEM;
    }
    const unsigned shortened = put_bytes(block, bytes) ? SHORTENED : 0;
    uint8_t *to = block->body + block->body_bytes;
    memcpy(to, &id, ID_BYTES);
    seal(&of, bytes, to + ID_BYTES);
    to[ID_BYTES] ^= damaged ? 0xff : 0;
    block->body_bytes += TAIL_BYTES;
    block->lanes[block->count % GW_BLOCK_LANES] ^= id;
    // Of a long one the low bits.
    block->ends[block->count] = (uint16_t)((block->body_bytes & END_MASK) | shortened);
    *out_place = gw_block_place(block->number, block->count);
    block->count++;
    return 0;
}

int gw_block_write(struct gw_block *block, MDB_txn *txn, MDB_dbi table, unsigned flags)
{
    const size_t head = head_bytes(block->count);
    struct gw_key key = gw_block_key(block->number);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {head + block->body_bytes, NULL};
    if (block->count == 0) {
        return 0;
    }
    base_assert(block->number <= GW_BLOCK_NUMBER_MAX);
    int rc = mdb_put(txn, table, &k, &v, MDB_RESERVE | flags);
    if (rc == MDB_KEYEXIST && (flags & MDB_APPEND) != 0) { // a damaged key lies behind all others
        rc = mdb_put(txn, table, &k, &v, MDB_RESERVE | (flags & ~(unsigned)MDB_APPEND));
    }
    if (rc != 0) {
        return rc;
    }
    uint8_t *to = v.mv_data;
    memcpy(to, block->lanes, sizeof(block->lanes));
    to[COUNT_AT] = (uint8_t)block->count;
    memcpy(to + ENDS_AT, block->ends, 2u * (size_t)block->count);
    memcpy(to + head, block->body, block->body_bytes);
    gw_block_begin(block, block->number + 1);
    return 0;
}

// ---- Reading one

bool gw_block_may_hold(MDB_val value)
{
    return value.mv_size >= head_bytes(1) + TAIL_BYTES;
}

// Does the value's size fit so many records, and where the last of them says that it ends?
static bool count_fits(const uint8_t *value, size_t size, uint32_t count)
{
    const size_t least = head_bytes(count) + count * (size_t)TAIL_BYTES;
    return count > 0 && count <= GW_BLOCK_RECORDS && size >= least &&
           (base_stored_u16(value + ENDS_AT + 2u * (count - 1)) & END_MASK) ==
               ((size - head_bytes(count)) & END_MASK);
}

bool gw_block_open(MDB_val key, MDB_val value, struct gw_block_view *out)
{
    uint64_t number;
    if (!gw_block_key_read(key, &number) || !gw_block_may_hold(value)) {
        return false;
    }
    const uint8_t *bytes = value.mv_data;
    base_assert(value.mv_size > COUNT_AT);
    *out = (struct gw_block_view){.number = number,
                                  .version = *(const uint8_t *)key.mv_data,
                                  .count = bytes[COUNT_AT],
                                  .value = bytes,
                                  .size = value.mv_size};
    out->whole = count_fits(bytes, value.mv_size, out->count);
    if (out->whole) {
        return true;
    }
    // One of the two is damaged: the count, when another one fits, else the last end.
    for (uint32_t count = 1; count <= GW_BLOCK_RECORDS; count++) {
        if (count_fits(bytes, value.mv_size, count)) {
            out->count = count;
            return true;
        }
    }
    return out->count > 0 && out->count <= GW_BLOCK_RECORDS &&
           head_bytes(out->count) + out->count * (size_t)TAIL_BYTES <= out->size;
}

static size_t end_of(const struct gw_block_view *view, uint32_t index)
{
    if (view->mended == index + 1) {
        return view->mended_end;
    }
    return index == view->count - 1
               ? view->size - head_bytes(view->count)
               : base_stored_u16(view->value + ENDS_AT + 2u * index) & END_MASK;
}

static bool is_shortened(const struct gw_block_view *view, uint32_t index)
{
    return (base_stored_u16(view->value + ENDS_AT + 2u * index) & SHORTENED) != 0;
}

// A record with its bytes as they lie there.
static struct gw_block_record look(const struct gw_block_view *view, uint32_t index)
{
    const size_t from = index == 0 ? 0 : end_of(view, index - 1);
    const size_t end = end_of(view, index);
    struct gw_block_record record = {.is_there = false};
    base_assert(index < view->count);
    if (end > view->size - head_bytes(view->count) || from > end || end - from < TAIL_BYTES) {
        return record;
    }
    record.bytes.data = view->value + head_bytes(view->count) + from;
    record.bytes.size = end - from - TAIL_BYTES;
    record.id = base_stored_u64(record.bytes.data + record.bytes.size);
    record.is_there = true;
    return record;
}

// Makes bytes that were shortened whole, in the room. False: they cannot be.
static bool lengthen(const struct gw_block_view *view, uint32_t index, struct base_span *bytes,
                     struct gw_block_room *room)
{
    const struct base_span from = *bytes;
    base_assert(from.data >= view->value && index < view->count);
    if (from.size == 0 || from.data[0] >= index || is_shortened(view, from.data[0])) {
        return false;
    }
    const struct gw_block_record model = look(view, from.data[0]);
    size_t at = 1 + (model.bytes.size + 7) / 8;
    if (!model.is_there || model.bytes.size > sizeof(room->bytes) || at > from.size) {
        return false;
    }
    memcpy(room->bytes, model.bytes.data, model.bytes.size);
    for (size_t i = 0; i < model.bytes.size; i++) {
        if ((from.data[1 + i / 8] >> i % 8 & 1) == 0) {
            continue;
        }
        if (at == from.size) {
            return false;
        }
        room->bytes[i] = from.data[at++];
    }
    *bytes = (struct base_span){room->bytes, model.bytes.size};
    return at == from.size;
}

// Does the seal that stands behind the record's id fit its whole bytes, were it this id's?
static bool fits(const struct gw_block_view *view, uint32_t index, struct base_span bytes,
                 uint64_t id)
{
    const struct gw_block_record there = look(view, index);
    const struct seal_of of = {view->number, id, index};
    uint8_t wanted[SEAL_BYTES];
    if (!there.is_there || view->version != KEY_VERSION) {
        return false;
    }
    seal(&of, bytes, wanted);
    return memcmp(wanted, there.bytes.data + there.bytes.size + ID_BYTES, SEAL_BYTES) == 0;
}

struct gw_block_record gw_block_get(const struct gw_block_view *view, uint32_t index,
                                    struct gw_block_room *room)
{
    struct gw_block_record record = look(view, index);
    if (record.is_there &&
        (!is_shortened(view, index) || lengthen(view, index, &record.bytes, room))) {
        record.sound = fits(view, index, record.bytes, record.id);
    }
    return record;
}

bool gw_block_ids_right(const struct gw_block_view *view)
{
    uint64_t lanes[GW_BLOCK_LANES];
    memcpy(lanes, view->value, sizeof(lanes));
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gw_block_record record = look(view, i);
        if (!record.is_there) {
            return false;
        }
        lanes[i % GW_BLOCK_LANES] ^= record.id;
    }
    return (lanes[0] | lanes[1]) == 0;
}
_Static_assert(GW_BLOCK_LANES == 2, "both are looked at");

// What is wrong in a lane.
struct lane {
    uint64_t left;   // of the lane, without the ids of sound records
    uint64_t stored; // ids of the others, as they stand there
    uint32_t broken; // how many these are
    bool all_there;
};

static bool lane_owners(const struct gw_block_view *view, const struct lane *lane, uint32_t index,
                        struct gw_block_owner *out)
{
    struct gw_block_room room;
    const struct gw_block_record record = gw_block_get(view, index, &room);
    if (record.sound || (lane->all_there && lane->left == lane->stored)) {
        *out = (struct gw_block_owner){{record.id, record.id}, 1};
        return true;
    }
    *out = (struct gw_block_owner){{lane->left, record.id}, 1};
    if (record.is_there && !fits(view, index, record.bytes, lane->left)) {
        out->count = 2;
    }
    return lane->broken == 1;
}

// Where a whole record ends, when its end is damaged: where its seal fits.
static bool find_end(const struct gw_block_view *view, uint32_t index, uint16_t *out)
{
    const uint8_t *body = view->value + head_bytes(view->count);
    const size_t from = index == 0 ? 0 : end_of(view, index - 1);
    const size_t most = view->size - head_bytes(view->count);
    for (size_t end = from + TAIL_BYTES; end <= most && end <= GW_BLOCK_BYTES; end++) {
        const struct base_span bytes = {body + from, end - from - TAIL_BYTES};
        const struct seal_of of = {view->number, base_stored_u64(body + end - TAIL_BYTES), index};
        uint8_t wanted[SEAL_BYTES];
        seal(&of, bytes, wanted);
        if (memcmp(wanted, body + end - SEAL_BYTES, SEAL_BYTES) == 0) {
            *out = (uint16_t)end;
            return true;
        }
    }
    return false;
}

// Records that were shortened hang on a whole one: where its end is damaged, none of them is known.
static void mend_end(struct gw_block_view *view)
{
    struct gw_block_room room;
    base_assert(view->mended == 0);
    for (uint32_t i = 0; i + 1 < view->count; i++) {
        if (!is_shortened(view, i) && !gw_block_get(view, i, &room).sound &&
            find_end(view, i, &view->mended_end)) {
            view->mended = i + 1;
            return;
        }
    }
}

bool gw_block_owners(struct gw_block_view *view, struct gw_block_owner out[GW_BLOCK_RECORDS])
{
    struct lane lanes[GW_BLOCK_LANES];
    struct gw_block_room room;
    base_assert(view->count > 0 && view->count <= GW_BLOCK_RECORDS);
    if (!gw_block_ids_right(view) && view->mended == 0) {
        mend_end(view);
    }
    if (gw_block_ids_right(view)) { // as nearly always: no seal is looked at
        for (uint32_t i = 0; i < view->count; i++) {
            const struct gw_block_record record = look(view, i);
            out[i] = (struct gw_block_owner){{record.id, record.id}, 1};
        }
        return true;
    }
    for (uint32_t i = 0; i < GW_BLOCK_LANES; i++) {
        lanes[i] =
            (struct lane){.left = base_stored_u64(view->value + (size_t)8 * i), .all_there = true};
    }
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gw_block_record record = gw_block_get(view, i, &room);
        struct lane *lane = &lanes[i % GW_BLOCK_LANES];
        lane->left ^= record.sound ? record.id : 0;
        lane->stored ^= record.sound ? 0 : record.id;
        lane->broken += !record.sound;
        lane->all_there = lane->all_there && record.is_there;
    }
    for (uint32_t i = 0; i < view->count; i++) {
        if (!lane_owners(view, &lanes[i % GW_BLOCK_LANES], i, &out[i])) {
            return false;
        }
    }
    return true;
}

// Is any of its records?
static bool is_any_sound(const struct gw_block_view *view)
{
    struct gw_block_room room;
    for (uint32_t i = 0; i < view->count; i++) {
        if (gw_block_get(view, i, &room).sound) {
            return true;
        }
    }
    return false;
}

bool gw_block_mend_key(struct gw_block_view *view)
{
    const struct gw_block_view before = *view;
    if (is_any_sound(view)) {
        return false;
    }
    for (int bit = -1; bit < 48; bit++) { // of the version first
        view->version = KEY_VERSION;
        view->number = bit < 0 ? before.number : before.number ^ UINT64_C(1) << bit;
        if (is_any_sound(view)) {
            return view->number > 0 && view->number <= GW_BLOCK_NUMBER_MAX;
        }
    }
    *view = before;
    return false;
}
