// Storage of virtual devices: what is shared, what a kill loses, and that shared hashing says what
// real hashing says.
#include "test_kit.h"

#include "device/device.h"
#include "ports/sim_crypto.h"
#include "ports/sim_storage.h"

#define CONTENT_BYTES 5000u

struct rig {
    struct test_alloc alloc;
    struct sim_store *store;
    uint8_t content[CONTENT_BYTES];
    struct wire_sha256 name;
};

static struct wire_sha256 real_hash(const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

static void rig_init(struct rig *rig)
{
    test_alloc_init(&rig->alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&rig->alloc.port, dev_crypto_openssl(), &rig->store), BASE_OK);
    for (uint32_t i = 0; i < CONTENT_BYTES; i++) {
        rig->content[i] = (uint8_t)(i * 31 + i / 256);
    }
    rig->name = real_hash(rig->content, CONTENT_BYTES);
}

static struct sim_storage storage_of(struct rig *rig, struct sim_disk *disk)
{
    return (struct sim_storage){.store = rig->store, .disk = disk, .alloc = &rig->alloc.port};
}

static void install(struct sim_storage *storage, struct rig *rig)
{
    struct dev_storage_port port = sim_storage_port(storage);
    for (size_t at = 0; at < CONTENT_BYTES; at += 1000) {
        assert_int_equal(port.blob_append(port.ctx, &rig->name, at, rig->content + at, 1000),
                         BASE_OK);
    }
    assert_int_equal(port.blob_seal(port.ctx, &rig->name), BASE_OK);
}

static void devices_share_content(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct sim_disk disks[3] = {{0}, {0}, {.real = true}};
    const uint8_t *mapped[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct sim_storage storage = storage_of(&rig, &disks[i]);
        size_t size = 0;
        install(&storage, &rig);
        struct dev_storage_port port = sim_storage_port(&storage);
        assert_int_equal(port.blob_map(port.ctx, &rig.name, &mapped[i], &size), BASE_OK);
        assert_int_equal(size, CONTENT_BYTES);
        assert_memory_equal(mapped[i], rig.content, CONTENT_BYTES);
        assert_true(storage.sealed);
        assert_int_equal(storage.bad_seals, 0);
    }
    assert_ptr_equal(mapped[0], mapped[1]);
    assert_ptr_not_equal(mapped[0], mapped[2]); // the sample that shares nothing
    assert_int_equal(sim_disk_bytes(&disks[0], rig.store), 0);
    assert_int_equal(sim_disk_bytes(&disks[1], rig.store), 0);
    assert_true(sim_disk_bytes(&disks[2], rig.store) >= CONTENT_BYTES);
    assert_int_equal(sim_store_blob_count(rig.store), 1);
    assert_int_equal(sim_disk_image(&disks[0], rig.store), sim_disk_image(&disks[1], rig.store));
    for (uint32_t i = 0; i < 3; i++) {
        sim_disk_done(&disks[i], rig.store, &rig.alloc.port);
    }
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

static void a_kill_loses_what_was_not_sealed(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct sim_disk disk = {0};
    struct sim_storage storage = storage_of(&rig, &disk);
    struct dev_storage_port port = sim_storage_port(&storage);
    install(&storage, &rig);
    const uint8_t saved[] = "state";
    assert_int_equal(port.state_save(port.ctx, saved, sizeof(saved)), BASE_OK);

    const uint8_t other[600] = {7};
    struct wire_sha256 pulled = real_hash(other, sizeof(other));
    uint32_t lost = 0;
    for (uint64_t draw = 1; draw < 200; draw++) {
        assert_int_equal(port.blob_append(port.ctx, &pulled, 0, other, 300), BASE_OK);
        assert_int_equal(port.blob_append(port.ctx, &pulled, 300, other + 300, 300), BASE_OK);
        sim_storage_kill(&storage, draw * 0x9e3779b97f4a7c15u);
        uint64_t size = 0;
        bool sealed = true;
        assert_int_equal(port.blob_stat(port.ctx, &pulled, &size, &sealed), BASE_OK);
        assert_false(sealed);
        assert_true(size <= sizeof(other));
        lost += size < sizeof(other);
        // What is left is the start of what was written.
        const uint8_t *bytes;
        size_t mapped;
        assert_int_equal(port.blob_map(port.ctx, &pulled, &bytes, &mapped), BASE_OK);
        assert_memory_equal(bytes, other, mapped);
        // It can be resumed from there, and only from there.
        assert_int_equal(port.blob_append(port.ctx, &pulled, size + 1, other, 1),
                         BASE_ERR_CONFLICT);
        assert_int_equal(port.blob_delete(port.ctx, &pulled), BASE_OK);
    }
    assert_true(lost > 150);
    // Sealed content and the saved state survive every kill.
    uint64_t size = 0;
    bool sealed = false;
    assert_int_equal(port.blob_stat(port.ctx, &rig.name, &size, &sealed), BASE_OK);
    assert_true(sealed && size == CONTENT_BYTES);
    uint8_t loaded[64];
    size_t loaded_size = 0;
    assert_int_equal(port.state_load(port.ctx, loaded, sizeof(loaded), &loaded_size), BASE_OK);
    assert_int_equal(loaded_size, sizeof(saved));
    assert_memory_equal(loaded, saved, sizeof(saved));
    assert_int_equal(port.state_load(port.ctx, loaded, 3, &loaded_size), BASE_ERR_TOO_LARGE);
    sim_disk_done(&disk, rig.store, &rig.alloc.port);
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

// A device that seals what is not what its name says is caught, and the store stays clean.
static void wrong_content_is_counted(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    for (uint32_t known = 0; known < 2; known++) {
        struct sim_disk disk = {0};
        struct sim_storage storage = storage_of(&rig, &disk);
        struct dev_storage_port port = sim_storage_port(&storage);
        uint8_t wrong[CONTENT_BYTES];
        memcpy(wrong, rig.content, sizeof(wrong));
        wrong[CONTENT_BYTES / 2] ^= 1;
        assert_int_equal(port.blob_append(port.ctx, &rig.name, 0, wrong, sizeof(wrong)), BASE_OK);
        assert_int_equal(port.blob_seal(port.ctx, &rig.name), BASE_OK);
        assert_int_equal(storage.bad_seals, 1);
        const uint8_t *bytes;
        size_t size;
        assert_int_equal(port.blob_map(port.ctx, &rig.name, &bytes, &size), BASE_OK);
        assert_memory_equal(bytes, wrong, sizeof(wrong)); // this device keeps its own bytes
        sim_disk_done(&disk, rig.store, &rig.alloc.port);
        struct sim_disk good = {0};
        struct sim_storage other = storage_of(&rig, &good);
        install(&other, &rig); // known to the store in the second round
        assert_int_equal(other.bad_seals, 0);
        sim_disk_done(&good, rig.store, &rig.alloc.port);
    }
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

// What is on its way is there once, however many pull it at the same time; who gets other bytes is
// told apart at once, and what one loses or gives up is still the others'.
static void content_on_its_way_is_shared(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct sim_disk disks[20] = {{0}};
    struct sim_storage storages[20];
    struct dev_storage_port ports[20];
    size_t idle = rig.alloc.live;
    const uint8_t *early = NULL;
    size_t size = 0;
    for (uint32_t i = 0; i < 20; i++) {
        storages[i] = storage_of(&rig, &disks[i]);
        ports[i] = sim_storage_port(&storages[i]);
    }
    for (size_t at = 0; at < CONTENT_BYTES - 1000; at += 1000) {
        for (uint32_t i = 0; i < 20; i++) {
            const uint8_t *bytes = rig.content + at;
            uint8_t wrong[1000];
            memcpy(wrong, bytes, sizeof(wrong));
            wrong[999] ^= 1;
            assert_int_equal(ports[i].blob_append(ports[i].ctx, &rig.name, at,
                                                  i == 7 && at == 2000 ? wrong : bytes, 1000),
                             BASE_OK);
        }
        if (at == 0) {
            assert_int_equal(ports[3].blob_map(ports[3].ctx, &rig.name, &early, &size), BASE_OK);
            assert_int_equal(size, 1000);
        }
    }
    assert_memory_equal(early, rig.content, 1000); // what was mapped stays while the rest comes
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(sim_disk_bytes(&disks[i], rig.store) >= CONTENT_BYTES - 1000, i == 7);
    }
    assert_true(rig.alloc.live - idle < 40); // pieces: a partial each, a body, its bytes
    sim_storage_kill(&storages[5], 12345);
    assert_int_equal(ports[6].blob_delete(ports[6].ctx, &rig.name), BASE_OK);
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t have = 0;
        bool sealed = false;
        if (ports[i].blob_stat(ports[i].ctx, &rig.name, &have, &sealed) != BASE_OK) {
            assert_int_equal(i, 6);
        }
        assert_int_equal(ports[i].blob_append(ports[i].ctx, &rig.name, have, rig.content + have,
                                              CONTENT_BYTES - have),
                         BASE_OK);
        assert_int_equal(ports[i].blob_seal(ports[i].ctx, &rig.name), BASE_OK);
        const uint8_t *bytes = NULL;
        assert_int_equal(ports[i].blob_map(ports[i].ctx, &rig.name, &bytes, &size), BASE_OK);
        assert_int_equal(size, CONTENT_BYTES);
        assert_int_equal(memcmp(bytes, rig.content, CONTENT_BYTES) == 0, i != 7);
        assert_int_equal(storages[i].bad_seals, i == 7);
    }
    assert_int_equal(sim_store_blob_count(rig.store), 1);
    for (uint32_t i = 0; i < 20; i++) {
        sim_disk_done(&disks[i], rig.store, &rig.alloc.port);
    }
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

// Names that lead to one chain of bodies.
static struct wire_sha256 chained(uint8_t number)
{
    struct wire_sha256 name = {.bytes = {5}};
    name.bytes[31] = number;
    return name;
}

// A body is found by its whole name, and lives as long as somebody holds it: neither longer nor
// shorter, whichever of a chain goes first.
static void bodies_live_as_long_as_they_are_held(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 3; first++) {
        struct rig rig;
        rig_init(&rig);
        size_t idle = rig.alloc.live;
        struct sim_body *bodies[3];
        for (uint8_t i = 0; i < 3; i++) {
            const struct wire_sha256 name = chained(i);
            bodies[i] = sim_body_ref(rig.store, &name);
            assert_int_equal(sim_body_add(rig.store, bodies[i], 0, rig.content + 100 * i, 100),
                             BASE_OK);
        }
        for (uint8_t i = 0; i < 3; i++) { // held twice
            const struct wire_sha256 name = chained(i);
            assert_ptr_equal(sim_body_ref(rig.store, &name), bodies[i]);
        }
        size_t held = rig.alloc.live;
        assert_true(held > idle);
        sim_body_unref(rig.store, bodies[first]);
        assert_int_equal(rig.alloc.live, held); // the other one has it
        assert_memory_equal(sim_body_bytes(bodies[first]), rig.content + 100 * first, 100);
        sim_body_unref(rig.store, bodies[first]);
        assert_true(rig.alloc.live < held);
        const struct wire_sha256 gone = chained((uint8_t)first);
        struct sim_body *anew = sim_body_ref(rig.store, &gone);
        assert_null(sim_body_bytes(anew)); // nothing is left of the one before
        sim_body_unref(rig.store, anew);
        for (uint32_t i = 0; i < 3; i++) {
            if (i != first) {
                assert_memory_equal(sim_body_bytes(bodies[i]), rig.content + 100 * i, 100);
                sim_body_unref(rig.store, bodies[i]);
                sim_body_unref(rig.store, bodies[i]);
            }
        }
        assert_int_equal(rig.alloc.live, idle);
        sim_body_unref(rig.store, NULL);
        sim_store_free(rig.store);
        assert_int_equal(rig.alloc.live, 0);
    }
}

// What is kept is the content, not what somebody's bytes went on with; its bytes are no copy where
// they are all there is, and stay when nobody is on the way any more.
static void a_body_becomes_content(void **state)
{
    (void)state;
    for (uint32_t longer = 0; longer < 2; longer++) {
        struct rig rig;
        rig_init(&rig);
        const struct sim_blob *blob = NULL;
        struct sim_body *body = sim_body_ref(rig.store, &rig.name);
        assert_int_equal(sim_body_add(rig.store, body, 0, rig.content, CONTENT_BYTES), BASE_OK);
        if (longer != 0) {
            assert_int_equal(sim_body_add(rig.store, body, CONTENT_BYTES, rig.content, 10),
                             BASE_OK);
        }
        assert_int_equal(sim_body_keep(rig.store, body, 10, &blob), BASE_ERR_HASH);
        assert_null(sim_store_find(rig.store, &rig.name));
        assert_int_equal(sim_body_keep(rig.store, body, CONTENT_BYTES, &blob), BASE_OK);
        assert_int_equal(blob->bytes == sim_body_bytes(body), longer == 0);
        assert_int_equal(blob->size, CONTENT_BYTES);
        assert_int_equal(sim_store_bytes(rig.store), CONTENT_BYTES);
        const struct sim_blob *again = NULL;
        assert_int_equal(sim_body_keep(rig.store, body, CONTENT_BYTES, &again), BASE_OK);
        assert_ptr_equal(again, blob);
        assert_int_equal(sim_store_bytes(rig.store), CONTENT_BYTES); // counted once
        // Content that is verified takes no more bytes; the same ones it has.
        assert_int_equal(sim_body_add(rig.store, body, 0, rig.content, CONTENT_BYTES), BASE_OK);
        assert_int_equal(sim_body_add(rig.store, body, CONTENT_BYTES, rig.content + 1, 10),
                         BASE_ERR_CONFLICT);
        sim_body_unref(rig.store, body);
        assert_memory_equal(blob->bytes, rig.content, CONTENT_BYTES);
        sim_store_free(rig.store);
        assert_int_equal(rig.alloc.live, 0);
    }
}

// A body holds its bytes once while it grows: nothing is left of memory that it outgrew, unless
// somebody has that mapped.
static void a_body_outgrows_its_memory(void **state)
{
    (void)state;
    for (uint32_t mapped = 0; mapped < 2; mapped++) {
        struct rig rig;
        rig_init(&rig);
        struct sim_body *body = sim_body_ref(rig.store, &rig.name);
        assert_null(sim_body_lend(body));
        assert_int_equal(sim_body_add(rig.store, body, 0, rig.content, 10), BASE_OK);
        size_t small = rig.alloc.live;
        const uint8_t *early = mapped != 0 ? sim_body_lend(body) : NULL;
        for (size_t at = 10; at < CONTENT_BYTES; at += 10) {
            assert_int_equal(sim_body_add(rig.store, body, at, rig.content + at, 10), BASE_OK);
        }
        assert_int_equal(rig.alloc.live, small + (mapped != 0 ? 2 : 0)); // ... and its place
        assert_memory_equal(sim_body_bytes(body), rig.content, CONTENT_BYTES);
        if (mapped != 0) {
            assert_memory_equal(early, rig.content, 10);
        }
        sim_body_unref(rig.store, body);
        sim_store_free(rig.store);
        assert_int_equal(rig.alloc.live, 0);
    }
}

static struct wire_sha256 memo_hash(const struct dev_crypto_port *port, struct base_prng *prng,
                                    const struct wire_sha256 *expected, const uint8_t *bytes,
                                    size_t size)
{
    struct dev_hash_state state;
    struct wire_sha256 digest;
    uint8_t *copy = test_exact(bytes, size);
    port->hash_begin(port->ctx, &state, expected);
    for (size_t at = 0; at < size;) {
        size_t part = 1 + (size_t)base_prng_below(prng, 700);
        part = part < size - at ? part : size - at;
        port->hash_update(port->ctx, &state, copy + at, part);
        at += part;
    }
    port->hash_end(port->ctx, &state, &digest);
    free(copy);
    return digest;
}

static void memo_equals_real_hash(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_crypto crypto;
    struct base_prng prng;
    const struct sim_blob *blob;
    test_seed(&prng);
    rig_init(&rig);
    assert_int_equal(sim_store_add(rig.store, &rig.name, rig.content, CONTENT_BYTES, &blob),
                     BASE_OK);
    assert_int_equal(
        sim_crypto_init(&crypto, &rig.alloc.port, dev_crypto_openssl(), rig.store, NULL), BASE_OK);
    struct dev_crypto_port port = sim_crypto_port(&crypto);
    struct wire_sha256 unknown = {{9}};
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t bytes[CONTENT_BYTES + 10];
        memcpy(bytes, rig.content, CONTENT_BYTES);
        memset(bytes + CONTENT_BYTES, 1, 10);
        size_t size = CONTENT_BYTES;
        switch (base_prng_below(&prng, 5)) {
        case 0:
            bytes[base_prng_below(&prng, size)] ^= (uint8_t)(1 + base_prng_below(&prng, 255));
            break;
        case 1:
            size = (size_t)base_prng_below(&prng, size);
            break;
        case 2:
            size += 1 + (size_t)base_prng_below(&prng, 10);
            break;
        default:
            break;
        }
        const struct wire_sha256 *hints[] = {&rig.name, &unknown, NULL};
        const struct wire_sha256 *hint = hints[base_prng_below(&prng, 3)];
        struct wire_sha256 found = memo_hash(&port, &prng, hint, bytes, size);
        struct wire_sha256 real = real_hash(bytes, size);
        assert_memory_equal(&found, &real, sizeof(real));
    }
    assert_true(crypto.shared_bytes > 0 && crypto.real_bytes > 0 && crypto.fallbacks > 0);
    sim_crypto_done(&crypto);
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

static enum base_status count_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                     const uint8_t *message, size_t size,
                                     const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    uint32_t *calls = ctx;
    (*calls)++;
    return size > 0 && message[0] == key[0] && signature[0] == key[0] ? BASE_OK
                                                                      : BASE_ERR_SIGNATURE;
}

static void signatures_are_kept_by_all_of_their_input(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_crypto crypto;
    rig_init(&rig);
    uint32_t calls = 0;
    struct dev_crypto_port real = *dev_crypto_openssl();
    real.verify = count_verify;
    real.ctx = &calls;
    assert_int_equal(sim_crypto_init(&crypto, &rig.alloc.port, &real, rig.store, NULL), BASE_OK);
    struct dev_crypto_port port = sim_crypto_port(&crypto);
    uint8_t key[WIRE_PUBLIC_KEY_BYTES] = {5};
    uint8_t signature[WIRE_SIGNATURE_BYTES] = {5};
    uint8_t message[40] = {5};
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(port.verify(port.ctx, key, message, 40, signature), BASE_OK);
    }
    assert_int_equal(calls, 1);
    signature[0] = 6;
    assert_int_equal(port.verify(port.ctx, key, message, 40, signature), BASE_ERR_SIGNATURE);
    signature[0] = 5;
    message[0] = 6;
    assert_int_equal(port.verify(port.ctx, key, message, 40, signature), BASE_ERR_SIGNATURE);
    assert_int_equal(port.verify(port.ctx, key, message, 39, signature), BASE_ERR_SIGNATURE);
    key[0] = 6;
    assert_int_equal(port.verify(port.ctx, key, message, 40, signature), BASE_ERR_SIGNATURE);
    assert_int_equal(calls, 5);
    sim_crypto_done(&crypto);
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

#define PULLING  300u
#define PULLED   3u
#define PIECE    150u
#define ALL_OF_A 600u

// What a disk should have, as an array has it.
struct pulled {
    bool there;
    bool sealed;
    uint32_t size;
};

static void assert_pulled(const struct dev_storage_port *port, const struct wire_sha256 *name,
                          const struct pulled *wanted)
{
    uint64_t size = 0;
    bool sealed = false;
    enum base_status status = port->blob_stat(port->ctx, name, &size, &sealed);
    assert_int_equal(status, wanted->there ? BASE_OK : BASE_ERR_NOT_FOUND);
    if (wanted->there) {
        assert_int_equal(size, wanted->size);
        assert_int_equal(sealed, wanted->sealed);
    }
}

// One step of a disk with one blob; now and then there is no memory.
static void pull(struct rig *rig, const struct dev_storage_port *port, struct base_prng *prng,
                 struct pulled *of, const struct wire_sha256 *name)
{
    const uint64_t draw = base_prng_below(prng, 8);
    if (draw == 0 && of->there) {
        assert_int_equal(port->blob_delete(port->ctx, name), BASE_OK);
        *of = (struct pulled){.there = false};
    } else if (of->size == ALL_OF_A) {
        assert_int_equal(port->blob_seal(port->ctx, name), BASE_OK);
        of->sealed = true;
    } else {
        rig->alloc.allowed = draw == 1 ? base_prng_below(prng, 3) : SIZE_MAX;
        enum base_status status =
            port->blob_append(port->ctx, name, of->size, rig->content + of->size, PIECE);
        rig->alloc.allowed = SIZE_MAX;
        uint64_t size;
        bool sealed;
        of->there =
            status == BASE_OK || port->blob_stat(port->ctx, name, &size, &sealed) == BASE_OK;
        of->size += status == BASE_OK ? PIECE : 0;
        assert_true(status == BASE_OK || status == BASE_ERR_FULL);
    }
}

// Disks that begin, finish and give up several blobs, in any order, have what an array has.
static void pulling_disks_match_an_array(void **state)
{
    (void)state;
    static struct pulled wanted[PULLING][PULLED];
    static struct sim_disk disks[PULLING];
    struct rig rig;
    struct wire_sha256 names[PULLED];
    struct base_prng prng;
    rig_init(&rig);
    base_prng_seed(&prng, 4);
    for (uint32_t k = 0; k < PULLED; k++) { // the same bytes: only the first is what its name says
        names[k] = real_hash(rig.content, ALL_OF_A + k);
    }
    names[1] = names[0];
    names[1].bytes[0] ^= 1; // never verified, so a device keeps it as its own
    for (uint32_t turn = 0; turn < 40000; turn++) {
        const uint32_t d = (uint32_t)base_prng_below(&prng, PULLING);
        const uint32_t k = (uint32_t)base_prng_below(&prng, PULLED);
        disks[d].real = d % 10 == 0;
        struct sim_storage storage = storage_of(&rig, &disks[d]);
        const struct dev_storage_port port = sim_storage_port(&storage);
        pull(&rig, &port, &prng, &wanted[d][k], &names[k]);
        for (uint32_t i = 0; i < PULLED; i++) {
            assert_pulled(&port, &names[i], &wanted[d][i]);
        }
    }
    assert_true(sim_store_blob_count(rig.store) == 1);
    for (uint32_t d = 0; d < PULLING; d++) {
        sim_disk_done(&disks[d], rig.store, &rig.alloc.port);
    }
    sim_store_free(rig.store);
    assert_int_equal(rig.alloc.live, 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t allowed = 0;; allowed++) {
        struct test_alloc alloc;
        struct sim_store *store;
        test_alloc_init(&alloc, allowed);
        enum base_status status = sim_store_new(&alloc.port, dev_crypto_openssl(), &store);
        if (status == BASE_OK) {
            sim_store_free(store);
            assert_int_equal(alloc.live, 0);
            assert_true(allowed > 0);
            break;
        }
        assert_int_equal(status, BASE_ERR_NOMEM);
        assert_int_equal(alloc.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_share_content),
        cmocka_unit_test(a_kill_loses_what_was_not_sealed),
        cmocka_unit_test(wrong_content_is_counted),
        cmocka_unit_test(content_on_its_way_is_shared),
        cmocka_unit_test(bodies_live_as_long_as_they_are_held),
        cmocka_unit_test(a_body_becomes_content),
        cmocka_unit_test(a_body_outgrows_its_memory),
        cmocka_unit_test(memo_equals_real_hash),
        cmocka_unit_test(signatures_are_kept_by_all_of_their_input),
        cmocka_unit_test(pulling_disks_match_an_array),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
