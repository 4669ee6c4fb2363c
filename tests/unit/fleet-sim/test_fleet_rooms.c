// Runtimes folded up and unfolded: every byte comes back, pointers of a runtime into itself point
// into the room it has now, like runtimes take little, and rooms are used again.
#include "test_kit.h"

#include "base/prng.h"
#include "memory/runtime_rooms.h"

#define ROOM_BYTES 4096u
#define ROOMS      4u
#define DEVICES    40u
#define ROUNDS     2000u

// What stands for a runtime.
struct fake {
    struct fake *self;
    char *text; // in `bytes`
    const void *end;
    const void *outside;
    uint64_t number;
    uint8_t bytes[ROOM_BYTES - 40];
};
_Static_assert(sizeof(struct fake) == ROOM_BYTES, "it fills a room");

struct device {
    struct sim_folded *folded;
    struct fake *fake; // while it has a room
    uint64_t number;
    uint8_t marks[8]; // at the end
};

static struct fake *make(struct sim_rooms *rooms, struct device *device, uint64_t number)
{
    struct fake *fake = sim_rooms_take(rooms);
    for (size_t i = 0; i < ROOM_BYTES; i++) {
        assert_int_equal(((const uint8_t *)fake)[i], 0);
    }
    fake->self = fake;
    fake->text = (char *)fake->bytes + number % 1000;
    fake->end = fake + 1;
    fake->outside = device;
    fake->number = number;
    device->number = number;
    return fake;
}

static void is_whole_but(const struct device *device, const struct fake *fake, const void *outside)
{
    assert_ptr_equal(fake->self, fake);
    assert_ptr_equal(fake->text, (const char *)fake->bytes + device->number % 1000);
    assert_ptr_equal(fake->end, fake + 1);
    assert_ptr_equal(fake->outside, outside);
    assert_int_equal(fake->number, device->number);
    assert_memory_equal(fake->bytes + sizeof(fake->bytes) - sizeof(device->marks), device->marks,
                        sizeof(device->marks));
}

static void is_whole(const struct device *device, const struct fake *fake)
{
    is_whole_but(device, fake, device);
}

static void change(struct device *device, struct base_prng *prng)
{
    uint64_t marks = base_prng_next(prng);
    memcpy(device->marks, &marks, sizeof(device->marks));
    memcpy(device->fake->bytes + sizeof(device->fake->bytes) - sizeof(device->marks), device->marks,
           sizeof(device->marks));
}

static void test_whole_after_many_folds(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    struct device devices[DEVICES] = {0};
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 17);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].fake = make(&rooms, &devices[i], i * UINT64_C(0x9e3779b97f4a7c15));
        change(&devices[i], &prng);
        devices[i].folded = sim_rooms_fold(&rooms, devices[i].fake, NULL, 0);
        assert_non_null(devices[i].folded);
        assert_true(sim_folded_bytes(devices[i].folded) < 120);
    }
    assert_int_equal(rooms.begun, 1); // one was enough for all
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct device *device = &devices[base_prng_below(&prng, DEVICES)];
        if (device->folded == NULL) {
            device->folded = sim_rooms_fold(&rooms, device->fake, NULL, 0);
            assert_non_null(device->folded);
        } else if (rooms.taken < ROOMS) {
            device->fake = sim_rooms_unfold(&rooms, device->folded);
            device->folded = NULL;
            is_whole(device, device->fake);
            change(device, &prng);
        }
    }
    assert_int_equal(rooms.begun, ROOMS);
    for (uint32_t i = 0; i < DEVICES; i++) {
        sim_rooms_forget(&rooms, devices[i].folded);
    }
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

// What a device is to be: bytes, and words that are pointers into it by their place and where to.
struct model {
    uint64_t words[ROOM_BYTES / 8];
    uint64_t points[ROOM_BYTES / 8]; // 0: it is no pointer; else one more than what it points to
    struct sim_folded *folded;
};

static void model_change(struct model *model, struct base_prng *prng)
{
    for (uint64_t count = base_prng_below(prng, 12); count > 0; count--) {
        uint64_t place = base_prng_below(prng, ROOM_BYTES / 8);
        place = base_prng_below(prng, 4) == 0 ? 0 : place; // where a free room has its link
        bool pointer = base_prng_below(prng, 5) == 0;
        model->points[place] = pointer ? 1 + base_prng_below(prng, ROOM_BYTES + 1) : 0;
        model->words[place] = base_prng_below(prng, 3) == 0 ? 0 : base_prng_next(prng) >> 20;
    }
}

static void model_write(const struct model *model, uint8_t *room)
{
    for (size_t i = 0; i < ROOM_BYTES / 8; i++) {
        uint64_t word =
            model->points[i] > 0 ? (uintptr_t)room + model->points[i] - 1 : model->words[i];
        memcpy(room + i * 8, &word, sizeof(word));
    }
}

static void model_is(const struct model *model, const uint8_t *room)
{
    for (size_t i = 0; i < ROOM_BYTES / 8; i++) {
        uint64_t word;
        memcpy(&word, room + i * 8, sizeof(word));
        assert_int_equal(word, model->points[i] > 0 ? (uintptr_t)room + model->points[i] - 1
                                                    : model->words[i]);
    }
}

// Cells that nobody has; each begins with a pointer to the next.
static size_t cells_free(const struct sim_rooms *rooms)
{
    size_t count = 0;
    const void *cell = rooms->cells;
    while (cell != NULL) {
        count++;
        memcpy(&cell, cell, sizeof(cell));
    }
    return count;
}

static void model_become(struct model *model, const struct model *other)
{
    memcpy(model->words, other->words, sizeof(model->words));
    memcpy(model->points, other->points, sizeof(model->points));
}

// In a room: it came from where it was folded, or is made anew.
static uint8_t *model_room(struct sim_rooms *rooms, struct model *model)
{
    if (model->folded == NULL) {
        uint8_t *room = sim_rooms_take(rooms);
        model_write(model, room);
        return room;
    }
    uint8_t *room = sim_rooms_unfold(rooms, model->folded);
    model->folded = NULL;
    model_is(model, room);
    return room;
}

// Rooms keep what lay in them, and who comes next changes only what is another's: every word of
// every device against a model. Several are in rooms at once, some leave theirs as it is and are
// made anew later, kinds become others, and bases are given up and made of others.
static void test_every_word_against_a_model(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    static struct model models[DEVICES];
    uint8_t *in[DEVICES] = {NULL};
    uint32_t taken = 0;
    uint32_t unlike = 0;
    memset(models, 0, sizeof(models));
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 23);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    for (uint32_t i = 0; i < DEVICES; i++) {
        models[i] = i % 5 > 0 ? models[i / 5 * 5] : models[i]; // kinds of five
        for (uint32_t k = 0; i % 5 == 0 && k < 40; k++) {
            model_change(&models[i], &prng);
        }
    }
    for (uint32_t round = 0; round < 40 * ROUNDS; round++) {
        uint32_t i = (uint32_t)base_prng_below(&prng, DEVICES);
        struct model *model = &models[i];
        if (in[i] == NULL && taken < ROOMS) {
            in[i] = model_room(&rooms, model);
            taken++;
        } else if (in[i] != NULL) {
            model_is(model, in[i]);
            if (base_prng_below(&prng, 8) == 0) { // becomes as another one is
                model_become(model, &models[base_prng_below(&prng, DEVICES)]);
            }
            model_change(model, &prng);
            model_write(model, in[i]);
            if (base_prng_below(&prng, 16) == 0) {
                sim_rooms_put(&rooms, in[i]);
            } else {
                model->folded = sim_rooms_fold(&rooms, in[i], NULL, 0);
                unlike += model->folded == NULL;
                if (model->folded == NULL) { // like nobody: it stays
                    continue;
                }
            }
            in[i] = NULL;
            taken--;
        }
    }
    assert_in_range(unlike, 0, ROUNDS);
    assert_true(rooms.serials > SIM_ROOM_BASES_MAX);
    for (uint32_t i = 0; i < DEVICES; i++) {
        sim_rooms_put(&rooms, in[i]);
        sim_rooms_forget(&rooms, models[i].folded);
    }
    size_t chunks = 0;
    for (const void *chunk = rooms.chunks; chunk != NULL; chunks++) {
        memcpy(&chunk, chunk, sizeof(chunk));
    }
    assert_int_equal(cells_free(&rooms),
                     chunks * (SIM_ROOM_CHUNK_CELLS - 1)); // one holds the chunk
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

// A base is given up while a free room still has what is like it, and its place becomes another's.
static void test_a_room_of_a_base_that_is_no_more(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    static struct model models[3];
    memset(models, 0, sizeof(models));
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 5);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    for (uint32_t k = 0; k < 400; k++) {
        model_change(&models[0], &prng);
        model_change(&models[1], &prng); // nothing like the first
    }
    models[2] = models[1];
    model_change(&models[2], &prng);
    uint8_t *rooms_of[] = {model_room(&rooms, &models[1]), model_room(&rooms, &models[2]),
                           model_room(&rooms, &models[0])};
    models[0].folded = sim_rooms_fold(&rooms, rooms_of[2], NULL, 0);
    assert_non_null(models[0].folded);
    sim_rooms_forget(&rooms, models[0].folded); // its base is free; its room has its lines
    models[1].folded = sim_rooms_fold(&rooms, rooms_of[0], NULL, 0);
    models[2].folded = sim_rooms_fold(&rooms, rooms_of[1], NULL, 0);
    assert_int_equal(rooms.serials, 2);                                 // in the place of the first
    uint8_t *held[] = {sim_rooms_take(&rooms), sim_rooms_take(&rooms)}; // all other free ones
    uint8_t *room = model_room(&rooms, &models[2]);                     // looked at word by word
    assert_ptr_equal(room, rooms_of[2]);
    sim_rooms_put(&rooms, room);
    sim_rooms_put(&rooms, held[0]);
    sim_rooms_put(&rooms, held[1]);
    sim_rooms_forget(&rooms, models[1].folded);
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

static void test_who_points_into_another_room_stays(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct device devices[2] = {0};
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    struct fake *one = make(&rooms, &devices[0], 1);
    struct fake *other = make(&rooms, &devices[1], 2);
    one->outside = rooms.area; // as if it were the start of its own
    assert_null(sim_rooms_fold(&rooms, one, NULL, 0));
    one->outside = &other->number;
    assert_null(sim_rooms_fold(&rooms, one, NULL, 0));
    assert_int_equal(rooms.taken, 2);
    one->outside = NULL;
    struct sim_folded *folded = sim_rooms_fold(&rooms, one, NULL, 0);
    assert_non_null(folded);
    one = sim_rooms_unfold(&rooms, folded); // not of the base that it was refused as
    is_whole_but(&devices[0], one, NULL);
    folded = sim_rooms_fold(&rooms, one, NULL, 0);
    assert_non_null(folded);
    memcpy(other, rooms.bases[0].bytes, ROOM_BYTES); // its base to the bit, as if it lay there
    assert_null(sim_rooms_fold(&rooms, other, NULL, 0));
    sim_rooms_forget(&rooms, folded);
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

// Whatever is in it: a runtime like none before becomes a base while there is a place for one, and
// stays in its room after that.
static void test_unlike_all_others(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    struct sim_folded *folded[SIM_ROOM_BASES_MAX + 1] = {0};
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 4);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    for (uint32_t i = 0; i <= SIM_ROOM_BASES_MAX; i++) {
        uint8_t *room = sim_rooms_take(&rooms);
        for (uint32_t k = 0; k < ROOM_BYTES; k++) {
            room[k] = (uint8_t)base_prng_next(&prng);
        }
        folded[i] = sim_rooms_fold(&rooms, room, NULL, 0);
        assert_true((folded[i] != NULL) == (i < SIM_ROOM_BASES_MAX));
    }
    assert_int_equal(rooms.taken, 1);
    sim_rooms_forget(&rooms, folded[3]); // its base may be another's now
    folded[3] = sim_rooms_fold(&rooms, rooms.area + rooms.room_bytes, NULL, 0);
    assert_non_null(folded[3]);
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        sim_rooms_forget(&rooms, folded[i]);
    }
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

// Runtimes that are far from one base become like another: after a few the other one is tried
// before a search, and a search in vain is not made again for each. What is kept is whole either
// way, also behind the last whole line of 64 bytes.
static void test_an_heir_and_searches_in_vain(void **state)
{
    (void)state;
    const size_t bytes = ROOM_BYTES - 16;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    struct sim_folded *bases[SIM_ROOM_BASES_MAX] = {0};
    uint8_t kinds[SIM_ROOM_BASES_MAX][ROOM_BYTES];
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 8);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, bytes, ROOMS), BASE_OK);
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        uint8_t *room = sim_rooms_take(&rooms);
        for (uint32_t k = 0; k < bytes; k++) {
            kinds[i][k] = (uint8_t)base_prng_next(&prng);
        }
        memcpy(room, kinds[i], bytes);
        bases[i] = sim_rooms_fold(&rooms, room, NULL, 0);
        assert_non_null(bases[i]);
    }
    struct sim_folded *folded = bases[2];
    for (uint32_t round = 0; round < 2 * SIM_ROOM_BASES_MAX; round++) {
        uint32_t kind = round % 2 == 0 ? 9 : 2;
        uint8_t *room = sim_rooms_unfold(&rooms, folded);
        assert_memory_equal(room, kinds[round % 2 == 0 ? 2 : 9], bytes);
        memcpy(room, kinds[kind], bytes);
        folded = sim_rooms_fold(&rooms, room, NULL, 0);
        assert_non_null(folded);
        assert_true(sim_folded_bytes(folded) < 16);
        assert_int_equal(rooms.bases[11 - kind].heirs[0], kind);
    }
    bases[2] = folded;
    uint8_t *twin = sim_rooms_take(&rooms);
    memcpy(twin, kinds[4], bytes);
    // No other takes the place of its base.
    struct sim_folded *other = sim_rooms_fold(&rooms, twin, NULL, 0);
    assert_non_null(other);
    for (uint32_t round = 0; round < 600; round++) { // 700 bytes away from each
        uint8_t *room = sim_rooms_unfold(&rooms, bases[4]);
        uint8_t was[ROOM_BYTES];
        memcpy(room, kinds[4], bytes);
        for (uint32_t k = 0; k < SIM_FOLDED_BYTES + 100; k++) {
            room[bytes - 1 - k] ^= (uint8_t)(1 + round % 200);
        }
        memcpy(was, room, bytes);
        bases[4] = sim_rooms_fold(&rooms, room, NULL, 0);
        assert_non_null(bases[4]);
        room = sim_rooms_unfold(&rooms, bases[4]);
        assert_memory_equal(room, was, bytes);
        memcpy(room, kinds[4], bytes);
        bases[4] = sim_rooms_fold(&rooms, room, NULL, 0);
        assert_non_null(bases[4]);
    }
    assert_true(rooms.unsought_at > 0);
    sim_rooms_forget(&rooms, other);
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        sim_rooms_forget(&rooms, bases[i]);
    }
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

// Says where its state is: `used` bytes of the texts behind its numbers, and its marks at the end.
static uint32_t spans_of(const struct fake *fake, size_t used, struct base_span out[2])
{
    const uint8_t *begin = (const uint8_t *)fake;
    const size_t head = offsetof(struct fake, bytes);
    out[0] = (struct base_span){begin, head + used};
    out[1] = (struct base_span){begin + ROOM_BYTES - 8, 8};
    return 2;
}

// What is not state is neither compared nor kept, and may point anywhere; what is comes back to the
// byte, however much of it the base and who was in the room before had.
static void test_state_alone_comes_back(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_rooms rooms;
    struct base_prng prng;
    struct device devices[DEVICES] = {0};
    uint8_t texts[DEVICES][ROOM_BYTES];
    size_t used[DEVICES] = {0};
    struct base_span spans[2];
    test_alloc_init(&alloc, SIZE_MAX);
    base_prng_seed(&prng, 23);
    assert_int_equal(sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS), BASE_OK);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct fake *fake = make(&rooms, &devices[i], i);
        devices[i].fake = fake;
        change(&devices[i], &prng);
        devices[i].folded = sim_rooms_fold(&rooms, fake, spans, spans_of(fake, 0, spans));
        assert_non_null(devices[i].folded);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t i = (uint32_t)base_prng_below(&prng, DEVICES);
        struct device *device = &devices[i];
        struct fake *fake = sim_rooms_unfold(&rooms, device->folded);
        device->fake = fake;
        is_whole(device, fake);
        assert_memory_equal(fake->bytes, texts[i], used[i]);
        size_t before = used[i];
        used[i] = base_prng_below(&prng, 4) * 350;
        for (size_t k = before; k < used[i]; k++) {
            fake->bytes[k] = round % 3 == 0 ? (uint8_t)base_prng_next(&prng) : (uint8_t)i;
        }
        memcpy(texts[i], fake->bytes, used[i]);
        change(device, &prng);
        const void *stray = rooms.area + rooms.room_bytes + base_prng_below(&prng, ROOM_BYTES);
        for (size_t k = 1536; k < 3000; k += sizeof(stray)) {
            memcpy(fake->bytes + k, &stray, sizeof(stray));
        }
        device->folded = sim_rooms_fold(&rooms, fake, spans, spans_of(fake, used[i], spans));
        assert_non_null(device->folded);
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        sim_rooms_forget(&rooms, devices[i].folded);
    }
    sim_rooms_done(&rooms);
    assert_int_equal(alloc.live, 0);
}

static void test_without_memory(void **state)
{
    (void)state;
    for (size_t allowed = 0; allowed < 4; allowed++) {
        struct test_alloc alloc;
        struct sim_rooms rooms;
        struct device device = {0};
        test_alloc_init(&alloc, allowed);
        enum base_status status = sim_rooms_init(&rooms, &alloc.port, ROOM_BYTES, ROOMS);
        assert_int_equal(status, allowed < 2 ? BASE_ERR_NOMEM : BASE_OK);
        if (status == BASE_OK) {
            struct fake *fake = make(&rooms, &device, 5);
            assert_null(sim_rooms_fold(&rooms, fake, NULL, 0));
            is_whole(&device, fake);
        }
        sim_rooms_done(&rooms);
        assert_int_equal(alloc.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_after_many_folds),
        cmocka_unit_test(test_every_word_against_a_model),
        cmocka_unit_test(test_a_room_of_a_base_that_is_no_more),
        cmocka_unit_test(test_who_points_into_another_room_stays),
        cmocka_unit_test(test_unlike_all_others),
        cmocka_unit_test(test_an_heir_and_searches_in_vain),
        cmocka_unit_test(test_state_alone_comes_back),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
