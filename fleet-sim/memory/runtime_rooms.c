// Folding of runtimes. Called by device_rooms.c for a shard's devices, on the shard's thread.
//
// A runtime has pointers into itself. They are compared, and kept, as pointers to the same place at
// the start of the area, and when it comes back they are those of its room: any word may be one,
// since nobody here knows. That is exact as long as no word already points into the area beside its
// own room, which is looked at, too. Most lines of a runtime are its base's to the bit and have no
// pointer there: then they have none here. Lines without state are not looked at: most of a room is
// for what is not under way. A room that is given back keeps what lies in it, and which lines of
// that are not a base's: who comes next changes only those and its own.
#include "memory/runtime_rooms.h"

#include "base/check.h"
#include "model/zero_pages.h"

#include <string.h>

#define ROOM_STEP    64u // a line of a cache; rooms are an odd count of them apart
#define LINE         64u
#define LINE_HALVES  (LINE / sizeof(uint32_t)) // a bit each in a part of a delta
#define LINE_WORDS   (LINE / sizeof(uintptr_t))
#define MARKS        64u // lines of a word of marks
#define SPAN_LINES   8u  // that are compared at once; a part of MARKS
#define SPAN         (SPAN_LINES * LINE)
#define SPAN_ALL     ((UINT64_C(1) << SPAN_LINES) - 1)
#define UNSOUGHT_MAX 256u
#define CELL_BYTES   128u
#define SPOILT       0xa5 // lines without state, in debug builds

// delta := part ...    part := number of a line, which halves of its words differ, these. Of a time
// the upper half is the same for days.
#define PART_HEAD (2 * sizeof(uint16_t))
#define PART_MOST (PART_HEAD + LINE)

// A delta lies in cells of one size, so that the memory of those that grow is nobody's hole.
struct cell {
    struct cell *next;
    uint8_t bytes[CELL_BYTES - sizeof(struct cell *)];
};

// The first one begins with this.
struct sim_folded {
    struct cell *next;
    uint32_t bytes;
    uint32_t base;
    uint8_t delta[CELL_BYTES - sizeof(struct cell *) - 2 * sizeof(uint32_t)];
};
_Static_assert(sizeof(struct sim_folded) == sizeof(struct cell), "it is one");

// Behind what is used of a room.
struct tail {
    uint32_t base;    // that what is in it was made from, or the last one's
    uint32_t serial;  // while it is free: of the base that its lines are; 0: nobody knows
    uint64_t lines[]; // ... but for these
};

static size_t marks_count(const struct sim_rooms *rooms)
{
    return (rooms->used_bytes + LINE * MARKS - 1) / (LINE * MARKS);
}

static size_t marks_bytes(const struct sim_rooms *rooms)
{
    return marks_count(rooms) * sizeof(uint64_t);
}

static size_t lines_count(const struct sim_rooms *rooms)
{
    return (rooms->used_bytes + LINE - 1) / LINE;
}

static void mark(uint64_t *marks, size_t at)
{
    marks[at / LINE / MARKS] |= UINT64_C(1) << (at / LINE % MARKS);
}

// Of the lines of the span that begins at `at`, the first one's in bit 0.
static uint64_t span_marks(const uint64_t *marks, size_t at)
{
    uint64_t bits = marks[at / LINE / MARKS] >> (at / LINE % MARKS);
    return bits & SPAN_ALL;
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

// ---- Memory ----

static enum base_status pairs_init(struct sim_rooms *rooms)
{
    const size_t count = SIM_ROOM_BASES_MAX * SIM_ROOM_BASES_MAX;
    uint64_t *lines = rooms->alloc->alloc(rooms->alloc->ctx, marks_bytes(rooms) * (count + 2));
    rooms->lines = lines;
    rooms->state = lines != NULL ? lines + marks_count(rooms) * (count + 1) : NULL;
    for (size_t i = 0; lines != NULL && i < count; i++) {
        rooms->pairs[i / SIM_ROOM_BASES_MAX][i % SIM_ROOM_BASES_MAX].lines =
            lines + marks_count(rooms) * (i + 1);
    }
    return lines != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status sim_rooms_init(struct sim_rooms *rooms, const struct base_alloc_port *alloc,
                                size_t bytes, uint32_t count)
{
    base_assert(bytes % 16 == 0 && bytes >= sizeof(void *) && bytes / LINE < UINT16_MAX);
    *rooms = (struct sim_rooms){.alloc = alloc, .used_bytes = bytes, .rooms_max = count};
    size_t whole = bytes + sizeof(struct tail) + marks_bytes(rooms);
    rooms->room_bytes = whole + 2 * ROOM_STEP - whole % (2 * ROOM_STEP) + ROOM_STEP;
    rooms->area_bytes = rooms->room_bytes * ((size_t)count + 1);
    rooms->area = sim_pages_new(rooms->area_bytes);
    rooms->delta = alloc->alloc(alloc->ctx, bytes + PART_MOST);
    if (pairs_init(rooms) != BASE_OK || rooms->area == NULL || rooms->delta == NULL) {
        sim_rooms_done(rooms);
        return BASE_ERR_NOMEM;
    }
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
    struct cell *chunk = rooms->chunks;
    while (chunk != NULL) {
        struct cell *next = chunk->next;
        alloc->release(alloc->ctx, chunk);
        chunk = next;
    }
    alloc->release(alloc->ctx, rooms->lines);
    alloc->release(alloc->ctx, rooms->delta);
    sim_pages_free(rooms->area, rooms->area_bytes);
    *rooms = (struct sim_rooms){0};
}

static void cell_put(struct sim_rooms *rooms, struct cell *cell)
{
    cell->next = rooms->cells;
    rooms->cells = cell;
}

// NULL: no memory.
static struct cell *cell_take(struct sim_rooms *rooms)
{
    if (rooms->cells == NULL) {
        struct cell *chunk =
            rooms->alloc->alloc(rooms->alloc->ctx, CELL_BYTES * SIM_ROOM_CHUNK_CELLS);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = rooms->chunks;
        rooms->chunks = chunk;
        for (uint32_t i = SIM_ROOM_CHUNK_CELLS - 1; i > 0; i--) { // they are handed out as they lie
            cell_put(rooms, chunk + i);
        }
    }
    struct cell *cell = rooms->cells;
    rooms->cells = cell->next;
    return cell;
}

static void cells_put(struct sim_rooms *rooms, struct cell *cell)
{
    while (cell != NULL) {
        struct cell *next = cell->next;
        cell_put(rooms, cell);
        cell = next;
    }
}

// The delta at hand, in cells. NULL: no memory.
static struct sim_folded *delta_keep(struct sim_rooms *rooms, size_t bytes)
{
    struct sim_folded *folded = (struct sim_folded *)(void *)cell_take(rooms);
    if (folded == NULL) {
        return NULL;
    }
    folded->next = NULL;
    folded->bytes = (uint32_t)bytes;
    size_t at = less(bytes, sizeof(folded->delta));
    memcpy(folded->delta, rooms->delta, at);
    struct cell **link = &folded->next;
    while (at < bytes) {
        struct cell *cell = cell_take(rooms);
        if (cell == NULL) {
            cells_put(rooms, (struct cell *)(void *)folded);
            return NULL;
        }
        size_t size = less(bytes - at, sizeof(cell->bytes));
        memcpy(cell->bytes, rooms->delta + at, size);
        cell->next = NULL;
        *link = cell;
        link = &cell->next;
        at += size;
    }
    return folded;
}

// The delta of a folded runtime, at hand.
static void delta_fetch(struct sim_rooms *rooms, const struct sim_folded *folded)
{
    size_t at = less(folded->bytes, sizeof(folded->delta));
    memcpy(rooms->delta, folded->delta, at);
    for (const struct cell *cell = folded->next; cell != NULL; cell = cell->next) {
        size_t size = less(folded->bytes - at, sizeof(cell->bytes));
        memcpy(rooms->delta + at, cell->bytes, size);
        at += size;
    }
    base_check(at == folded->bytes);
}

// ---- Rooms ----

static struct tail *tail_of(const struct sim_rooms *rooms, void *room)
{
    return (struct tail *)(void *)((char *)room + rooms->used_bytes);
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

static void room_put(struct sim_rooms *rooms, void *room)
{
    base_check(rooms->taken > 0);
    rooms->taken--;
    memcpy(room, &rooms->free, sizeof(rooms->free));
    rooms->free = room;
}

void *sim_rooms_take(struct sim_rooms *rooms)
{
    bool zero = false;
    void *room = room_take(rooms, &zero);
    if (!zero) {
        memset(room, 0, rooms->used_bytes);
    }
    tail_of(rooms, room)->base = rooms->newest;
    return room;
}

void sim_rooms_put(struct sim_rooms *rooms, void *room)
{
    if (room != NULL) {
        tail_of(rooms, room)->serial = 0;
        room_put(rooms, room);
    }
}

// ---- Differences ----

// From where to where pointers are moved.
struct words {
    uintptr_t from;
    uintptr_t to;
    bool whole; // none was an address elsewhere in the area
};

// Copies words of a line, and those that are addresses in `from` as the same places in `to`: a bit
// for each of these.
static uint8_t words_move(const struct sim_rooms *rooms, struct words *words, void *out,
                          const void *bytes, size_t size)
{
    uintptr_t area = (uintptr_t)rooms->area;
    uint8_t moved = 0;
    base_assert(size <= LINE);
    for (size_t at = 0; at < size; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)bytes + at, sizeof(word));
        if (word - area < rooms->area_bytes) {
            bool own = word - words->from <= rooms->used_bytes; // or right behind it
            moved |= (uint8_t)(1u << at / sizeof(word));
            words->whole = words->whole && own;
            word = own ? word - words->from + words->to : word;
        }
        memcpy((char *)out + at, &word, sizeof(word));
    }
    return moved;
}

static struct words words_out_of(const struct sim_rooms *rooms, const void *room)
{
    return (struct words){(uintptr_t)room, (uintptr_t)rooms->area, true};
}

// A difference that is being written to `delta`.
struct differing {
    const struct sim_room_base *base;
    struct words words;
    size_t bytes;
    size_t most; // from there on nobody wants it
};

// What of a line is not the base's.
static void line_differ(struct sim_rooms *rooms, struct differing *differing, const uint8_t *room,
                        size_t at)
{
    uint32_t line[LINE_HALVES] = {0};
    uint32_t base[LINE_HALVES] = {0};
    uint8_t *part = rooms->delta + differing->bytes;
    size_t size = line_bytes(rooms, at);
    (void)words_move(rooms, &differing->words, line, room + at, size);
    memcpy(base, differing->base->bytes + at, size);
    uint32_t which = 0;
    size_t end = PART_HEAD;
    for (size_t i = 0; i < LINE_HALVES; i++) {
        memcpy(part + end, &line[i], sizeof(line[i])); // stays where it counts
        bool differs = line[i] != base[i];
        which |= differs ? 1u << i : 0;
        end += differs ? sizeof(line[i]) : 0;
    }
    if (which != 0) {
        const uint16_t head[] = {(uint16_t)(at / LINE), (uint16_t)which};
        memcpy(part, head, sizeof(head));
        differing->bytes += end;
        mark(rooms->lines, at);
    }
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
        return memcmp(a, b, size) == 0;
    }
    pair differs = (pair_at(a, 0) ^ pair_at(b, 0)) | (pair_at(a, 1) ^ pair_at(b, 1)) |
                   (pair_at(a, 2) ^ pair_at(b, 2)) | (pair_at(a, 3) ^ pair_at(b, 3));
    return (differs[0] | differs[1]) == 0;
}

// Is the line the base's, the words of which that `own` has a bit for are pointers into the room?
static inline bool line_is_moved(const uint8_t *base, uint8_t own, const uint8_t *room,
                                 uintptr_t by)
{
    uintptr_t differs = 0;
    for (size_t i = 0; i < LINE_WORDS; i++) {
        uintptr_t words[2];
        memcpy(&words[0], base + i * sizeof(words[0]), sizeof(words[0]));
        memcpy(&words[1], room + i * sizeof(words[1]), sizeof(words[1]));
        differs |= (words[0] + ((0 - (uintptr_t)(own >> i & 1)) & by)) ^ words[1];
    }
    return differs == 0;
}

// `marks`: lines of the span that are state.
static void span_differ(struct sim_rooms *rooms, struct differing *differing, const uint8_t *room,
                        size_t from, uint64_t marks)
{
    const struct sim_room_base *base = differing->base;
    const uintptr_t by = differing->words.from - differing->words.to;
    for (; marks != 0 && differing->bytes <= differing->most; marks &= marks - 1) {
        size_t at = from + (size_t)__builtin_ctzll(marks) * LINE;
        size_t size = line_bytes(rooms, at);
        uint8_t own = base->own[at / LINE];
        bool same = own == 0 ? line_is(base->bytes + at, room + at, size)
                             : size == LINE && line_is_moved(base->bytes + at, own, room + at, by);
        if (!same) {
            line_differ(rooms, differing, room, at);
        }
    }
}

// Is all that is state here state there?
static bool state_fits(const struct sim_rooms *rooms, const struct sim_room_base *base)
{
    uint64_t more = 0;
    for (size_t i = 0; i < marks_count(rooms); i++) {
        more |= rooms->state[i] & ~base->state[i];
    }
    return more == 0;
}

// The difference of the runtime to a base, into `delta`, and the lines it is in into `lines`.
// SIZE_MAX: there is none, it is larger than `most`, or it cannot be told from other rooms.
static size_t differ(struct sim_rooms *rooms, uint32_t place, const uint8_t *room, size_t most)
{
    const struct sim_room_base *base = &rooms->bases[place];
    struct differing differing = {base, words_out_of(rooms, room), 0, most};
    if (base->bytes == NULL || !state_fits(rooms, base)) {
        return SIZE_MAX;
    }
    base_assert(most <= rooms->used_bytes);
    memset(rooms->lines, 0, marks_bytes(rooms));
    for (size_t at = 0; at < rooms->used_bytes && differing.bytes <= most; at += SPAN) {
        uint64_t marks = span_marks(rooms->state, at);
        size_t size = less(SPAN, rooms->used_bytes - at);
        bool whole = marks == SPAN_ALL && span_marks(base->pointers, at) == 0;
        if (marks != 0 && (!whole || memcmp(base->bytes + at, room + at, size) != 0)) {
            span_differ(rooms, &differing, room, at, marks);
        }
    }
    return differing.words.whole && differing.bytes <= most ? differing.bytes : SIZE_MAX;
}

// ---- Bases ----

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
        size_t bytes = rooms->used_bytes + 2 * marks_bytes(rooms) + lines_count(rooms);
        base->bytes = rooms->alloc->alloc(rooms->alloc->ctx, bytes);
    }
    if (base->bytes == NULL) {
        return false;
    }
    base->serial = ++rooms->serials;
    base->pointers = (uint64_t *)(void *)(base->bytes + rooms->used_bytes);
    base->state = base->pointers + marks_count(rooms);
    base->own = (uint8_t *)(base->state + marks_count(rooms));
    memset(base->bytes, 0, rooms->used_bytes + marks_bytes(rooms));
    memcpy(base->state, rooms->state, marks_bytes(rooms));
    memset(base->own, 0, lines_count(rooms));
    struct words words = words_out_of(rooms, room);
    size_t at = 0;
    while ((at = marked_next(rooms, rooms->state, at)) < rooms->used_bytes) {
        uint8_t *out = base->bytes + at;
        base->own[at / LINE] = words_move(rooms, &words, out, room + at, line_bytes(rooms, at));
        if (base->own[at / LINE] != 0) {
            mark(base->pointers, at);
        }
        at += LINE;
    }
    for (uint32_t i = 0; i < SIM_ROOM_HEIRS; i++) {
        base->heirs[i] = place;
    }
    *out_place = place;
    if (!words.whole) { // nobody is to be like it
        rooms->alloc->release(rooms->alloc->ctx, base->bytes);
        *base = (struct sim_room_base){.bytes = NULL};
    }
    return words.whole;
}

// The base that the runtime differs least from, by at most `least`; SIM_ROOM_BASES_MAX: there is
// none.
static uint32_t base_likest(struct sim_rooms *rooms, const uint8_t *room, size_t least)
{
    uint32_t best = SIM_ROOM_BASES_MAX;
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        size_t bytes = differ(rooms, i, room, least);
        if (bytes != SIZE_MAX) {
            best = i;
            least = bytes;
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

// Of all bases the likest, or the runtime itself as a new one, or one that is less like it.
static size_t base_seek(struct sim_rooms *rooms, const uint8_t *room, uint32_t *out_base)
{
    uint32_t best = base_likest(rooms, room, SIM_FOLDED_BYTES);
    bool found = best < SIM_ROOM_BASES_MAX || base_add(rooms, room, &best);
    sought(rooms, found);
    best = found ? best : base_likest(rooms, room, rooms->used_bytes / 2);
    *out_base = best;
    return best < SIM_ROOM_BASES_MAX ? differ(rooms, best, room, rooms->used_bytes / 2) : SIZE_MAX;
}

// What came from there became that.
static void heir_note(struct sim_room_base *from, uint32_t heir)
{
    uint32_t at = 0;
    while (at < SIM_ROOM_HEIRS - 1 && from->heirs[at] != heir) {
        at++;
    }
    memmove(from->heirs + 1, from->heirs, at * sizeof(from->heirs[0]));
    from->heirs[0] = heir;
}

// Much of a runtime was not touched for long: its lines come at once, not one after another.
static void room_expect(const struct sim_rooms *rooms, const char *room)
{
    size_t at = 0;
    while ((at = marked_next(rooms, rooms->state, at)) < rooms->used_bytes) {
        __builtin_prefetch(room + at);
        at += LINE;
    }
}

// A base that the runtime is like, the difference to which is in `delta` then: that of others that
// came from the same one, and did the same perhaps, the one it came from, or any. SIZE_MAX: none.
static size_t base_find(struct sim_rooms *rooms, void *room, uint32_t *out_base)
{
    uint32_t from = tail_of(rooms, room)->base;
    const uint32_t *heirs = rooms->bases[from].heirs;
    bool seeks = rooms->unsought == 0;
    size_t bytes = SIZE_MAX;
    room_expect(rooms, room);
    rooms->unsought -= seeks ? 0 : 1;
    for (uint32_t i = 0; i <= SIM_ROOM_HEIRS && bytes == SIZE_MAX; i++) {
        *out_base = i < SIM_ROOM_HEIRS ? heirs[i] : from;
        bool again = i > 0 && *out_base == heirs[i - 1];
        bytes = again ? SIZE_MAX : differ(rooms, *out_base, room, SIM_FOLDED_BYTES);
    }
    if (bytes == SIZE_MAX && !seeks) {
        *out_base = heirs[0];
        bytes = differ(rooms, heirs[0], room, rooms->used_bytes / 2);
    }
    bytes = bytes != SIZE_MAX ? bytes : base_seek(rooms, room, out_base);
    if (bytes != SIZE_MAX) {
        heir_note(&rooms->bases[from], *out_base);
    }
    return bytes;
}

// The lines in which two bases differ.
static const uint64_t *pair_lines(struct sim_rooms *rooms, uint32_t a, uint32_t b)
{
    struct sim_room_pair *between = &rooms->pairs[a][b];
    const struct sim_room_base *bases[] = {&rooms->bases[a], &rooms->bases[b]};
    if (between->serials[0] != bases[0]->serial || between->serials[1] != bases[1]->serial) {
        between->serials[0] = bases[0]->serial;
        between->serials[1] = bases[1]->serial;
        memset(between->lines, 0, marks_bytes(rooms));
        for (size_t at = 0; at < rooms->used_bytes; at += LINE) {
            if (!line_is(bases[0]->bytes + at, bases[1]->bytes + at, line_bytes(rooms, at))) {
                mark(between->lines, at);
            }
        }
    }
    return between->lines;
}

// ---- Folding ----

// Lines of the room in which there is state.
static void state_mark(struct sim_rooms *rooms, const char *room, const struct base_span *spans,
                       uint32_t count)
{
    const struct base_span all = {(const uint8_t *)(const void *)room, rooms->used_bytes};
    spans = count > 0 ? spans : &all;
    count = count > 0 ? count : 1;
    memset(rooms->state, 0, marks_bytes(rooms));
    for (uint32_t i = 0; i < count; i++) {
        size_t from = (size_t)((const char *)(const void *)spans[i].data - room);
        base_assert(from <= rooms->used_bytes && spans[i].size <= rooms->used_bytes - from);
        for (size_t at = from - from % LINE; at < from + spans[i].size; at += LINE) {
            mark(rooms->state, at);
        }
    }
}

struct sim_folded *sim_rooms_fold(struct sim_rooms *rooms, void *room,
                                  const struct base_span *spans, uint32_t count)
{
    uint32_t base = 0;
    state_mark(rooms, room, spans, count);
    size_t bytes = base_find(rooms, room, &base);
    struct sim_folded *folded = bytes != SIZE_MAX ? delta_keep(rooms, bytes) : NULL;
    if (folded == NULL) {
        return NULL;
    }
    folded->base = base;
    rooms->bases[base].uses++;
    rooms->newest = base;
    struct tail *tail = tail_of(rooms, room);
    tail->base = base;
    tail->serial = rooms->bases[base].serial;
    for (size_t i = 0; i < marks_count(rooms); i++) {
        tail->lines[i] = rooms->lines[i] | ~rooms->state[i];
    }
    mark(tail->lines, 0); // what is free begins with a pointer
    room_put(rooms, room);
    return folded;
}

// Which lines of state in a free room are not those of a base, as that has them. All where nobody
// knows.
static void lines_others(struct sim_rooms *rooms, const struct tail *tail, uint32_t base)
{
    const uint64_t *state = rooms->bases[base].state;
    size_t count = marks_count(rooms);
    bool known = tail->serial != 0 && rooms->bases[tail->base].serial == tail->serial;
    const uint64_t *between = known ? pair_lines(rooms, tail->base, base) : NULL;
    for (size_t i = 0; i < count; i++) {
        rooms->lines[i] = (known ? tail->lines[i] | between[i] : UINT64_MAX) & state[i];
    }
}

// The lines of the delta at hand, their pointers as those of the room.
static void delta_put(struct sim_rooms *rooms, struct words *words, const struct sim_folded *folded,
                      uint8_t *room)
{
    const uint8_t *base = rooms->bases[folded->base].bytes;
    size_t at = 0;
    while (at < folded->bytes) {
        uint16_t head[2];
        uint32_t line[LINE_HALVES];
        memcpy(head, rooms->delta + at, sizeof(head));
        at += sizeof(head);
        size_t from = (size_t)head[0] * LINE;
        size_t size = line_bytes(rooms, from);
        memcpy(line, base + from, size);
        for (uint32_t which = head[1]; which != 0; which &= which - 1) {
            memcpy(&line[__builtin_ctz(which)], rooms->delta + at, sizeof(line[0]));
            at += sizeof(line[0]);
        }
        (void)words_move(rooms, words, room + from, line, size);
    }
    base_check(at == folded->bytes);
}

#ifdef BASE_DEBUG
// Who counts on what is not its state is to find out.
static void others_spoil(const struct sim_rooms *rooms, const struct sim_room_base *base,
                         uint8_t *room)
{
    for (size_t at = 0; at < rooms->used_bytes; at += LINE) {
        if ((base->state[at / LINE / MARKS] >> at / LINE % MARKS & 1) == 0) {
            memset(room + at, SPOILT, line_bytes(rooms, at));
        }
    }
}
#endif

void *sim_rooms_unfold(struct sim_rooms *rooms, struct sim_folded *folded)
{
    bool zero = false;
    uint8_t *room = room_take(rooms, &zero);
    struct tail *tail = tail_of(rooms, room);
    const struct sim_room_base *base = &rooms->bases[folded->base];
    struct words words = {(uintptr_t)rooms->area, (uintptr_t)room, true};
    lines_others(rooms, tail, folded->base);
    size_t at = 0;
    while ((at = marked_next(rooms, rooms->lines, at)) < rooms->used_bytes) {
        size_t size = line_bytes(rooms, at);
        if (base->own[at / LINE] == 0) {
            memcpy(room + at, base->bytes + at, size);
        } else {
            (void)words_move(rooms, &words, room + at, base->bytes + at, size);
        }
        at += LINE;
    }
#ifdef BASE_DEBUG
    others_spoil(rooms, base, room);
#endif
    delta_fetch(rooms, folded);
    delta_put(rooms, &words, folded, room);
    base_check(words.whole);
    tail->base = folded->base;
    sim_rooms_forget(rooms, folded);
    return room;
}

void sim_rooms_forget(struct sim_rooms *rooms, struct sim_folded *folded)
{
    if (folded != NULL) {
        base_check(rooms->bases[folded->base].uses > 0);
        rooms->bases[folded->base].uses--;
        cells_put(rooms, (struct cell *)(void *)folded);
    }
}

size_t sim_folded_bytes(const struct sim_folded *folded)
{
    return 2 * sizeof(uint32_t) + folded->bytes;
}
