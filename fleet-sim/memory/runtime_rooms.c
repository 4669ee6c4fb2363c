// Folding of runtimes. Called by fleet_shard.c for a shard's devices, on the shard's thread.
//
// A runtime has pointers into itself. They are compared, and kept, as pointers to the same place at
// the start of the area, and when it comes back they are those of its room: any word may be one,
// since nobody here knows. That is exact as long as no word already points into the area beside its
// own room, which is looked at, too. Most lines of a runtime are its base's to the bit and have no
// pointer there: then they have none here, and no more is done about them. They are passed over by
// the span, at the speed of memcmp.
#include "memory/runtime_rooms.h"

#include "base/check.h"
#include "model/zero_pages.h"
#include "ports/state_delta.h"

#include <string.h>

#define ROOM_STEP    64u // a line of a cache; rooms are an odd count of them apart
#define LINE         64u
#define MARKS        64u // lines of a word of marks
#define SPAN_LINES   4u  // that are compared at once; a part of MARKS
#define SPAN         (SPAN_LINES * LINE)
#define UNSOUGHT_MAX 256u

struct sim_folded {
    uint32_t bytes;
    uint32_t base;
    uint8_t delta[];
};

static size_t marks_bytes(const struct sim_rooms *rooms)
{
    return (rooms->used_bytes + LINE * MARKS - 1) / (LINE * MARKS) * sizeof(uint64_t);
}

static bool is_marked(const uint64_t *marks, size_t at)
{
    return (marks[at / LINE / MARKS] >> (at / LINE % MARKS) & 1) != 0;
}

static void mark(uint64_t *marks, size_t at)
{
    marks[at / LINE / MARKS] |= UINT64_C(1) << (at / LINE % MARKS);
}

// Of the lines of the span that begins at `at`, the first one's in bit 0.
static uint64_t span_marks(const uint64_t *marks, size_t at)
{
    uint64_t bits = marks[at / LINE / MARKS] >> (at / LINE % MARKS);
    return bits & ((UINT64_C(1) << SPAN_LINES) - 1);
}

static inline size_t less(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Of the line that begins at `at`; the last may be a part of one.
static size_t line_bytes(const struct sim_rooms *rooms, size_t at)
{
    return less(LINE, rooms->used_bytes - at);
}

// Where the first marked line at or behind `at` begins, or `used_bytes`.
static size_t marked_next(const struct sim_rooms *rooms, const uint64_t *marks, size_t at)
{
    while (at < rooms->used_bytes) {
        uint64_t bits = marks[at / LINE / MARKS] >> (at / LINE % MARKS);
        if (bits != 0) {
            return less(at + (size_t)__builtin_ctzll(bits) * LINE, rooms->used_bytes);
        }
        at = (at / (LINE * MARKS) + 1) * LINE * MARKS;
    }
    return rooms->used_bytes;
}

enum base_status sim_rooms_init(struct sim_rooms *rooms, const struct base_alloc_port *alloc,
                                size_t bytes, uint32_t count)
{
    base_assert(bytes % 16 == 0 && bytes >= sizeof(void *));
    *rooms = (struct sim_rooms){.alloc = alloc, .used_bytes = bytes, .rooms_max = count};
    rooms->room_bytes = bytes + 2 * ROOM_STEP - bytes % (2 * ROOM_STEP) + ROOM_STEP;
    rooms->area_bytes = rooms->room_bytes * ((size_t)count + 1);
    rooms->area = sim_pages_new(rooms->area_bytes);
    rooms->image = alloc->alloc(alloc->ctx, bytes + marks_bytes(rooms));
    rooms->delta = alloc->alloc(alloc->ctx, bytes);
    if (rooms->area == NULL || rooms->image == NULL || rooms->delta == NULL) {
        sim_rooms_done(rooms);
        return BASE_ERR_NOMEM;
    }
    rooms->lines = (uint64_t *)(void *)(rooms->image + bytes);
    return BASE_OK;
}

void sim_rooms_done(struct sim_rooms *rooms)
{
    const struct base_alloc_port *alloc = rooms->alloc;
    if (alloc == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        alloc->release(alloc->ctx, rooms->bases[i].bytes);
    }
    alloc->release(alloc->ctx, rooms->image);
    alloc->release(alloc->ctx, rooms->delta);
    sim_pages_free(rooms->area, rooms->area_bytes);
    *rooms = (struct sim_rooms){0};
}

// The base that what is in a room was made from, or the last one's: behind what is used of it.
static uint32_t *base_of(const struct sim_rooms *rooms, void *room)
{
    return (uint32_t *)(void *)((char *)room + rooms->used_bytes);
}

// One whose bytes are not yet known.
static void *room_take(struct sim_rooms *rooms, bool *out_zero)
{
    void *room = rooms->free;
    rooms->taken++;
    *out_zero = room == NULL;
    if (room != NULL) {
        memcpy(&rooms->free, room, sizeof(rooms->free));
        return room;
    }
    base_check(rooms->begun < rooms->rooms_max);
    rooms->begun++;
    return rooms->area + rooms->room_bytes * rooms->begun;
}

void *sim_rooms_take(struct sim_rooms *rooms)
{
    bool zero = false;
    void *room = room_take(rooms, &zero);
    if (!zero) {
        memset(room, 0, rooms->used_bytes);
    }
    *base_of(rooms, room) = rooms->newest;
    return room;
}

void sim_rooms_put(struct sim_rooms *rooms, void *room)
{
    if (room != NULL) {
        base_check(rooms->taken > 0);
        rooms->taken--;
        memcpy(room, &rooms->free, sizeof(rooms->free));
        rooms->free = room;
    }
}

// From where to where pointers are moved.
struct words {
    uintptr_t from;
    uintptr_t to;
    bool moved; // there was one
    bool whole; // none was an address elsewhere in the area
};

// Copies words, and those that are addresses in `from` as the same places in `to`.
static void words_move(const struct sim_rooms *rooms, struct words *words, void *out,
                       const void *bytes, size_t size)
{
    uintptr_t area = (uintptr_t)rooms->area;
    for (size_t at = 0; at < size; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)bytes + at, sizeof(word));
        if (word - area < rooms->area_bytes) {
            bool own = word - words->from <= rooms->used_bytes; // or right behind it
            words->moved = true;
            words->whole = words->whole && own;
            word = own ? word - words->from + words->to : word;
        }
        memcpy((char *)out + at, &word, sizeof(word));
    }
}

static struct words words_out_of(const struct sim_rooms *rooms, const void *room)
{
    return (struct words){(uintptr_t)room, (uintptr_t)rooms->area, false, true};
}

static inline bool words_are(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t differs = 0;
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, a + at, sizeof(x));
        memcpy(&y, b + at, sizeof(y));
        differs |= x ^ y;
    }
    return differs == 0;
}

// As the compiler's widest registers have it everywhere.
typedef uint64_t pair __attribute__((vector_size(16)));

static inline pair pair_at(const uint8_t *bytes, size_t index)
{
    pair words;
    memcpy(&words, bytes + index * sizeof(words), sizeof(words));
    return words;
}

// Whole lines, that is all but the last, are compared without a loop.
static inline bool line_is(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (size != LINE) {
        return words_are(a, b, size);
    }
    pair differs = (pair_at(a, 0) ^ pair_at(b, 0)) | (pair_at(a, 1) ^ pair_at(b, 1)) |
                   (pair_at(a, 2) ^ pair_at(b, 2)) | (pair_at(a, 3) ^ pair_at(b, 3));
    return (differs[0] | differs[1]) == 0;
}

// Which lines of a span are not the base's: marks them in `lines` and puts them into `image`. Their
// count.
static size_t span_look(struct sim_rooms *rooms, const struct sim_room_base *base,
                        struct words *words, const uint8_t *room, size_t from)
{
    const uint64_t pointers = span_marks(base->pointers, from);
    size_t end = less(from + SPAN, rooms->used_bytes);
    size_t count = 0;
    for (size_t at = from; at < end; at += LINE) {
        size_t size = line_bytes(rooms, at);
        bool has_pointer = (pointers >> ((at - from) / LINE) & 1) != 0;
        if (!has_pointer && line_is(base->bytes + at, room + at, size)) {
            continue;
        }
        words_move(rooms, words, rooms->image + at, room + at, size);
        if (!line_is(base->bytes + at, rooms->image + at, size)) {
            mark(rooms->lines, at);
            count++;
        }
    }
    return count;
}

// The same of the whole runtime. SIZE_MAX: there are `most` or more, or it cannot be told from
// other rooms.
static size_t lines_look(struct sim_rooms *rooms, const struct sim_room_base *base,
                         const uint8_t *room, size_t most)
{
    struct words words = words_out_of(rooms, room);
    size_t count = 0;
    memset(rooms->lines, 0, marks_bytes(rooms));
    for (size_t at = 0; at < rooms->used_bytes && count < most; at += SPAN) {
        size_t size = less(SPAN, rooms->used_bytes - at);
        if (span_marks(base->pointers, at) != 0 || memcmp(base->bytes + at, room + at, size) != 0) {
            count += span_look(rooms, base, &words, room, at);
        }
    }
    return words.whole && count < most ? count : SIZE_MAX;
}

// What is in the marked lines, as the difference to their base, into `delta`. SIZE_MAX: it is
// larger than `most`.
static size_t lines_differ(struct sim_rooms *rooms, const struct sim_room_base *base, size_t most)
{
    struct sim_delta_writer writer;
    sim_delta_begin(&writer, rooms->delta, most);
    size_t from = 0;
    while ((from = marked_next(rooms, rooms->lines, from)) < rooms->used_bytes) {
        size_t to = from;
        while (to < rooms->used_bytes && is_marked(rooms->lines, to)) {
            to += line_bytes(rooms, to);
        }
        sim_delta_part(&writer, base->bytes, rooms->image, from, to);
        from = to;
    }
    return sim_delta_end(&writer);
}

// The difference of the runtime to a base, into `delta`. SIZE_MAX: there is none, or it is larger
// than `most`.
static size_t differ(struct sim_rooms *rooms, uint32_t place, const uint8_t *room, size_t most)
{
    const struct sim_room_base *base = &rooms->bases[place];
    if (base->bytes == NULL || lines_look(rooms, base, room, most) == SIZE_MAX) {
        return SIZE_MAX;
    }
    return lines_differ(rooms, base, most);
}

// Where a new base may be; SIM_ROOM_BASES_MAX: nowhere.
static uint32_t base_place(const struct sim_rooms *rooms)
{
    uint32_t place = 0;
    while (place < SIM_ROOM_BASES_MAX && rooms->bases[place].uses > 0) {
        place++;
    }
    return place;
}

// Makes the runtime one. False: there is no place or no memory, or it points into other rooms.
static bool base_add(struct sim_rooms *rooms, const uint8_t *room, uint32_t *out_place)
{
    uint32_t place = base_place(rooms);
    if (place == SIM_ROOM_BASES_MAX) {
        return false;
    }
    struct sim_room_base *base = &rooms->bases[place];
    if (base->bytes == NULL) {
        size_t bytes = rooms->used_bytes + marks_bytes(rooms);
        base->bytes = rooms->alloc->alloc(rooms->alloc->ctx, bytes);
    }
    if (base->bytes == NULL) {
        return false;
    }
    base->pointers = (uint64_t *)(void *)(base->bytes + rooms->used_bytes);
    memset(base->pointers, 0, marks_bytes(rooms));
    struct words words = words_out_of(rooms, room);
    for (size_t at = 0; at < rooms->used_bytes; at += LINE) {
        words.moved = false;
        words_move(rooms, &words, base->bytes + at, room + at, line_bytes(rooms, at));
        if (words.moved) {
            mark(base->pointers, at);
        }
    }
    *out_place = place;
    return words.whole;
}

// The base that most lines of the runtime are in; SIM_ROOM_BASES_MAX: there is none.
static uint32_t base_likest(struct sim_rooms *rooms, const uint8_t *room)
{
    uint32_t best = SIM_ROOM_BASES_MAX;
    size_t least = rooms->used_bytes;
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        const struct sim_room_base *base = &rooms->bases[i];
        size_t count = base->bytes != NULL ? lines_look(rooms, base, room, least) : SIZE_MAX;
        if (count != SIZE_MAX) {
            best = i;
            least = count;
        }
    }
    return best;
}

// A search costs as much as many folds: after those in vain there is none for a while.
static void sought(struct sim_rooms *rooms, bool found)
{
    uint32_t next = rooms->unsought_at > 0 ? 2 * rooms->unsought_at : 1;
    rooms->unsought = found ? 0 : rooms->unsought_at;
    next = next < UNSOUGHT_MAX ? next : UNSOUGHT_MAX;
    rooms->unsought_at = found ? 0 : next;
}

// Of all bases the likest, or the runtime itself as a new one.
static size_t base_seek(struct sim_rooms *rooms, const uint8_t *room, uint32_t *out_base)
{
    uint32_t best = base_likest(rooms, room);
    size_t bytes =
        best < SIM_ROOM_BASES_MAX ? differ(rooms, best, room, SIM_FOLDED_BYTES) : SIZE_MAX;
    if (bytes == SIZE_MAX && base_add(rooms, room, &best)) {
        bytes = 0;
    }
    sought(rooms, bytes != SIZE_MAX);
    if (bytes == SIZE_MAX && best < SIM_ROOM_BASES_MAX) {
        bytes = differ(rooms, best, room, rooms->used_bytes / 2);
    }
    *out_base = best;
    return bytes;
}

// A base that the runtime is like, the difference to which is in `delta` then: the one it came
// from, that of another one that came from there and did the same perhaps, or any. SIZE_MAX: none.
static size_t base_find(struct sim_rooms *rooms, void *room, uint32_t *out_base)
{
    uint32_t from = *base_of(rooms, room);
    const uint32_t likely[] = {from, rooms->bases[from].heir};
    bool seeks = rooms->unsought == 0;
    size_t bytes = SIZE_MAX;
    rooms->unsought -= seeks ? 0 : 1;
    for (uint32_t i = 0; i < 2 && bytes == SIZE_MAX; i++) {
        size_t most = seeks || i == 0 ? SIM_FOLDED_BYTES : rooms->used_bytes / 2;
        *out_base = likely[i];
        bytes = differ(rooms, likely[i], room, most);
    }
    bytes = bytes != SIZE_MAX ? bytes : base_seek(rooms, room, out_base);
    if (bytes != SIZE_MAX && *out_base != from) {
        rooms->bases[from].heir = *out_base;
    }
    return bytes;
}

struct sim_folded *sim_rooms_fold(struct sim_rooms *rooms, void *room)
{
    uint32_t base = 0;
    size_t bytes = base_find(rooms, room, &base);
    if (bytes == SIZE_MAX) {
        return NULL;
    }
    struct sim_folded *folded = rooms->alloc->alloc(rooms->alloc->ctx, sizeof(*folded) + bytes);
    if (folded == NULL) {
        return NULL;
    }
    folded->bytes = (uint32_t)bytes;
    folded->base = base;
    memcpy(folded->delta, rooms->delta, bytes);
    rooms->bases[base].uses++;
    rooms->newest = base;
    sim_rooms_put(rooms, room);
    return folded;
}

// The bytes of a room that is its base's and is to differ by the delta, and the lines where its
// pointers are now into `lines`. False: it is no delta of a runtime.
static bool delta_put(struct sim_rooms *rooms, const struct sim_folded *folded, uint8_t *room)
{
    struct base_reader reader;
    size_t at = 0;
    size_t count = 0;
    const uint8_t *run;
    base_reader_init(&reader, folded->delta, folded->bytes);
    memcpy(rooms->lines, rooms->bases[folded->base].pointers, marks_bytes(rooms));
    while ((run = sim_delta_next(&reader, rooms->used_bytes, &at, &count)) != NULL) {
        memcpy(room + at - count, run, count);
        for (size_t line = (at - count) / LINE * LINE; line < at; line += LINE) {
            mark(rooms->lines, line);
        }
    }
    return reader.status == BASE_OK;
}

void *sim_rooms_unfold(struct sim_rooms *rooms, struct sim_folded *folded)
{
    bool zero = false;
    uint8_t *room = room_take(rooms, &zero);
    memcpy(room, rooms->bases[folded->base].bytes, rooms->used_bytes);
    base_check(delta_put(rooms, folded, room));
    struct words words = {(uintptr_t)rooms->area, (uintptr_t)room, false, true};
    size_t at = 0;
    while ((at = marked_next(rooms, rooms->lines, at)) < rooms->used_bytes) {
        words_move(rooms, &words, room + at, room + at, line_bytes(rooms, at));
        at += LINE;
    }
    base_check(words.whole);
    *base_of(rooms, room) = folded->base;
    sim_rooms_forget(rooms, folded);
    return room;
}

void sim_rooms_forget(struct sim_rooms *rooms, struct sim_folded *folded)
{
    if (folded != NULL) {
        base_check(rooms->bases[folded->base].uses > 0);
        rooms->bases[folded->base].uses--;
        rooms->alloc->release(rooms->alloc->ctx, folded);
    }
}

size_t sim_folded_bytes(const struct sim_folded *folded)
{
    return sizeof(*folded) + folded->bytes;
}
