// See delta_piece.h. Pure; called by the gateway's delta maker and the device's decoder. The walk
// over a piece's elements is done twice: first the old exponents are counted, which says where the
// numbers of each begin in the planes, then every number is put, or found, there.
#include "wire/delta_piece.h"

#include "base/check.h"

#include <string.h>

#define GAP_MORE 0xffu

static const struct {
    uint8_t width;
    uint8_t shift; // of the exponent's lowest bit
    uint8_t mask;  // of the exponent
} kinds[WIRE_DELTA_KIND_COUNT] = {
    [WIRE_DELTA_BYTES] = {1, 0, 0},
    [WIRE_DELTA_F16] = {2, 10, 0x1f},
    [WIRE_DELTA_BF16] = {2, 7, 0xff},
    [WIRE_DELTA_F32] = {4, 23, 0xff},
};

uint32_t wire_delta_width(uint8_t form)
{
    return kinds[form & WIRE_DELTA_KIND_MASK].width;
}

bool wire_delta_uses_old(uint8_t form)
{
    return (form & (WIRE_DELTA_WHOLE | WIRE_DELTA_SPARSE)) != WIRE_DELTA_WHOLE;
}

static uint32_t number_count(const struct wire_delta_piece *piece)
{
    if (piece->form == WIRE_DELTA_COPY) {
        return 0;
    }
    return (piece->form & WIRE_DELTA_SPARSE) != 0 ? piece->changed
                                                  : piece->bytes / wire_delta_width(piece->form);
}

uint32_t wire_delta_payload_bytes(const struct wire_delta_piece *piece)
{
    return piece->gaps_bytes + number_count(piece) * wire_delta_width(piece->form);
}

// ---- The head

void wire_delta_piece_write(struct base_writer *writer, const struct wire_delta_piece *piece,
                            uint64_t *cursor)
{
    base_writer_u8(writer, piece->form);
    base_writer_varint(writer, piece->bytes);
    if (wire_delta_uses_old(piece->form)) {
        base_writer_zigzag(writer, (int64_t)(piece->from - *cursor));
        *cursor = piece->from + piece->bytes;
    }
    if ((piece->form & WIRE_DELTA_SPARSE) != 0) {
        base_writer_varint(writer, piece->changed);
        base_writer_varint(writer, piece->gaps_bytes);
    }
}

static bool form_ok(uint8_t form)
{
    return form == WIRE_DELTA_COPY ||
           (form & ~(WIRE_DELTA_KIND_MASK | WIRE_DELTA_WHOLE | WIRE_DELTA_SPARSE)) == 0;
}

static bool piece_ok(const struct wire_delta_piece *piece, uint64_t old_size)
{
    uint32_t width = wire_delta_width(piece->form);
    if (piece->bytes == 0 || piece->bytes % width != 0) {
        return false;
    }
    if (wire_delta_uses_old(piece->form) &&
        (piece->from > old_size || piece->bytes > old_size - piece->from)) {
        return false;
    }
    return piece->changed <= piece->bytes / width && piece->gaps_bytes >= piece->changed &&
           piece->gaps_bytes + (uint64_t)piece->changed * width <= WIRE_DELTA_PIECE_BYTES_MAX;
}

enum base_status wire_delta_piece_read(struct base_reader *reader, uint64_t old_size,
                                       uint64_t *cursor, struct wire_delta_piece *out)
{
    struct base_reader at = *reader;
    struct wire_delta_piece piece = {.form = base_reader_u8(&at)};
    if (at.status == BASE_OK && !form_ok(piece.form)) {
        return BASE_ERR_CORRUPT;
    }
    piece.bytes = (uint32_t)base_reader_varint_max(&at, WIRE_DELTA_PIECE_BYTES_MAX);
    if (wire_delta_uses_old(piece.form)) {
        piece.from = *cursor + (uint64_t)base_reader_zigzag(&at); // wraps; piece_ok sees it
    }
    if ((piece.form & WIRE_DELTA_SPARSE) != 0) {
        piece.changed = (uint32_t)base_reader_varint_max(&at, WIRE_DELTA_PIECE_BYTES_MAX);
        piece.gaps_bytes = (uint32_t)base_reader_varint_max(&at, WIRE_DELTA_PIECE_BYTES_MAX);
    }
    if (at.status != BASE_OK) {
        return at.status == BASE_ERR_TRUNCATED ? BASE_ERR_TRUNCATED : BASE_ERR_CORRUPT;
    }
    if (!piece_ok(&piece, old_size)) {
        return BASE_ERR_CORRUPT;
    }
    if (wire_delta_uses_old(piece.form)) {
        *cursor = piece.from + piece.bytes;
    }
    base_assert(wire_delta_payload_bytes(&piece) <= WIRE_DELTA_PIECE_BYTES_MAX);
    *reader = at;
    *out = piece;
    return BASE_OK;
}

// ---- Elements

static uint32_t load(const uint8_t *at, uint32_t width)
{
    base_assert(width == 1 || width == 2 || width == 4);
    if (width == 4) {
        return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
               (uint32_t)at[3] << 24;
    }
    return width == 2 ? (uint32_t)at[0] | (uint32_t)at[1] << 8 : at[0];
}

static void store(uint8_t *at, uint32_t width, uint32_t value)
{
    base_assert(width == 1 || width == 2 || width == 4);
    for (uint32_t i = 0; i < width; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t width_mask(uint32_t width)
{
    base_assert(width >= 1 && width <= 4);
    return UINT32_MAX >> (32 - 8 * width);
}

// The difference as a number that is small when its amount is.
static uint32_t fold(uint32_t old, uint32_t fresh, uint32_t width)
{
    uint32_t difference = (fresh - old) & width_mask(width);
    uint32_t negative = difference >> (8 * width - 1);
    return ((difference << 1) ^ (0u - negative)) & width_mask(width);
}

static uint32_t unfold(uint32_t old, uint32_t number, uint32_t width)
{
    uint32_t difference = (number >> 1) ^ (0u - (number & 1));
    return (old + difference) & width_mask(width);
}

// The elements of a piece that have a number, in order.
struct walk {
    uint32_t count; // of elements of the piece
    uint32_t next;
    const uint8_t *gap; // NULL: all have one
    const uint8_t *gaps_end;
};

static struct walk walk_begin(const struct wire_delta_piece *piece, const uint8_t *gaps)
{
    bool sparse = (piece->form & WIRE_DELTA_SPARSE) != 0;
    return (struct walk){.count = piece->bytes / wire_delta_width(piece->form),
                         .gap = sparse ? gaps : NULL,
                         .gaps_end = sparse ? gaps + piece->gaps_bytes : NULL};
}

static bool walk_next(struct walk *walk, uint32_t *out_index)
{
    if (walk->gap != NULL) {
        if (walk->gap == walk->gaps_end) {
            return false;
        }
        while (*walk->gap == GAP_MORE) { // never the last byte: places_make
            walk->next += GAP_MORE;      // at most 512 Ki of them: no overflow
            walk->gap++;
        }
        walk->next += *walk->gap++;
    }
    if (walk->next >= walk->count) {
        return false;
    }
    *out_index = walk->next++;
    return true;
}

// Where the numbers of a piece stand in a plane: those of each class behind those of the lower.
struct places {
    uint32_t next[WIRE_DELTA_CLASSES];
    uint32_t count; // of numbers
};

static uint32_t class_of(uint8_t form, uint32_t old)
{
    uint32_t kind = form & WIRE_DELTA_KIND_MASK;
    return (form & WIRE_DELTA_WHOLE) != 0 ? 0 : old >> kinds[kind].shift & kinds[kind].mask;
}

// False: the gaps do not lead through the piece.
static bool places_make(const struct wire_delta_piece *piece, const uint8_t *old,
                        const uint8_t *gaps, struct places *places)
{
    uint32_t width = wire_delta_width(piece->form);
    base_assert(piece->bytes % width == 0);
    bool reads_old = (piece->form & WIRE_DELTA_WHOLE) == 0;
    memset(places, 0, sizeof(*places));
    if (piece->gaps_bytes > 0 && gaps[piece->gaps_bytes - 1] == GAP_MORE) {
        return false;
    }
    struct walk walk = walk_begin(piece, gaps);
    uint32_t at;
    while (walk_next(&walk, &at)) {
        uint32_t was = reads_old ? load(old + (size_t)at * width, width) : 0;
        places->next[class_of(piece->form, was)]++;
        places->count++;
    }
    uint32_t begin = 0;
    for (uint32_t i = 0; i < WIRE_DELTA_CLASSES; i++) {
        uint32_t size = places->next[i];
        places->next[i] = begin;
        begin += size;
    }
    return places->count == number_count(piece) && walk.gap == walk.gaps_end;
}

// ---- The sender

// The gaps of the changed elements; false: too many.
static bool gaps_write(struct wire_delta_piece *piece, const uint8_t *old, const uint8_t *fresh,
                       uint8_t *out)
{
    uint32_t width = wire_delta_width(piece->form);
    uint32_t count = piece->bytes / width;
    uint32_t gap = 0;
    uint64_t used = 0;
    piece->changed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(old + (size_t)i * width, fresh + (size_t)i * width, width) == 0) {
            gap++;
            continue;
        }
        if (used + gap / GAP_MORE + 1 + ((uint64_t)piece->changed + 1) * width >
            WIRE_DELTA_PIECE_BYTES_MAX) {
            return false;
        }
        memset(out + used, GAP_MORE, gap / GAP_MORE);
        used += gap / GAP_MORE;
        out[used++] = (uint8_t)(gap % GAP_MORE);
        piece->changed++;
        gap = 0;
    }
    base_assert(used + (uint64_t)piece->changed * width <= WIRE_DELTA_PIECE_BYTES_MAX);
    piece->gaps_bytes = (uint32_t)used;
    return true;
}

enum base_status wire_delta_split(struct wire_delta_piece *piece, const uint8_t *old,
                                  const uint8_t *fresh, uint8_t *out)
{
    uint32_t width = wire_delta_width(piece->form);
    bool whole = (piece->form & WIRE_DELTA_WHOLE) != 0;
    piece->changed = 0;
    piece->gaps_bytes = 0;
    if (piece->form == WIRE_DELTA_COPY) {
        return BASE_OK;
    }
    if ((piece->form & WIRE_DELTA_SPARSE) != 0 && !gaps_write(piece, old, fresh, out)) {
        return BASE_ERR_TOO_LARGE;
    }
    struct places places;
    if (!places_make(piece, old, out, &places)) {
        return BASE_ERR_INVALID;
    }
    uint8_t *planes = out + piece->gaps_bytes;
    struct walk walk = walk_begin(piece, out);
    uint32_t at;
    while (walk_next(&walk, &at)) {
        size_t offset = (size_t)at * width;
        uint32_t was = whole ? 0 : load(old + offset, width);
        uint32_t is = load(fresh + offset, width);
        uint32_t number = whole ? is : fold(was, is, width);
        uint32_t place = places.next[class_of(piece->form, was)]++;
        base_assert(place < places.count);
        for (uint32_t i = 0; i < width; i++) {
            planes[(size_t)i * places.count + place] = (uint8_t)(number >> (8 * (width - 1 - i)));
        }
    }
    return BASE_OK;
}

void wire_delta_class_ends(const struct wire_delta_piece *piece, const uint8_t *old,
                           const uint8_t *gaps, uint32_t out_ends[WIRE_DELTA_CLASSES])
{
    struct places places;
    (void)places_make(piece, old, gaps, &places);
    memcpy(out_ends, places.next + 1, (WIRE_DELTA_CLASSES - 1) * sizeof(out_ends[0]));
    out_ends[WIRE_DELTA_CLASSES - 1] = places.count;
}

// ---- The receiver

enum base_status wire_delta_join(const struct wire_delta_piece *piece, const uint8_t *old,
                                 const uint8_t *payload, uint8_t *out)
{
    uint32_t width = wire_delta_width(piece->form);
    bool whole = (piece->form & WIRE_DELTA_WHOLE) != 0;
    if (piece->form == WIRE_DELTA_COPY || (piece->form & WIRE_DELTA_SPARSE) != 0) {
        memcpy(out, old, piece->bytes);
    }
    if (piece->form == WIRE_DELTA_COPY) {
        return BASE_OK;
    }
    struct places places;
    if (!places_make(piece, old, payload, &places)) {
        return BASE_ERR_CORRUPT;
    }
    const uint8_t *planes = payload + piece->gaps_bytes;
    struct walk walk = walk_begin(piece, payload);
    uint32_t at;
    while (walk_next(&walk, &at)) {
        size_t offset = (size_t)at * width;
        uint32_t was = whole ? 0 : load(old + offset, width);
        uint32_t place = places.next[class_of(piece->form, was)]++;
        base_assert(place < places.count);
        uint32_t number = 0;
        for (uint32_t i = 0; i < width; i++) {
            number = number << 8 | planes[(size_t)i * places.count + place];
        }
        store(out + offset, width, whole ? number : unfold(was, number, width));
    }
    return BASE_OK;
}
