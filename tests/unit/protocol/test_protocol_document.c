// docs/PROTOCOL.md tells the truth: its examples are what the codecs write, its signature verifies,
// its vectors and limits are the code's.
//
// The page is read as it is: fenced blocks "```hex NAME" hold bytes (up to two spaces, then words),
// "```vectors NAME" hold rows, and limits are table rows of a name and a number.
#include "protocol_page.h"
#include "wire_check.h"
#include "wire/delta_piece.h"
#include "wire/leaves/leaves.h"
#include "wire/tunnel_dict.h"

#include "policy/bucket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#define DEVICE     0x4d2u
#define ROLLOUT    0x0707070707070707u
#define SALT       0x5a17000000000001u
#define VERSION_ID 0xb7f80b65ff219c48u

static struct wire_sha256 sha256(const void *bytes, size_t size)
{
    struct wire_sha256 digest;
    assert_non_null(SHA256(bytes, size, digest.bytes));
    return digest;
}

// ---- The example, built with the codecs ----

struct example {
    uint8_t manifest[BLOCK_MAX];
    size_t manifest_size;
    struct wire_sha256 version;
    uint8_t release[BLOCK_MAX];
    size_t release_size;
    uint8_t shadow[BLOCK_MAX];
    size_t shadow_size;
    struct block envelope; // from the page: it holds a signature
};

// ---- Exclusive files: a tree of three leaves ----

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    *out = sha256(bytes, size);
}

static const struct wire_hasher hasher = {.sha256 = hash};

static size_t make_exclusive(const char *content, uint8_t *out)
{
    struct wire_exclusive_files exclusive = {.file_count = 1};
    exclusive.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_MODEL,
        .name = BASE_STR("taste.onnx"),
        .bytes = 1200,
        .digest = sha256(content, strlen(content)),
    };
    size_t size = 0;
    assert_int_equal(wire_exclusive_encode(&exclusive, out, BLOCK_MAX, &size), BASE_OK);
    return size;
}

struct tree {
    struct wire_entry entries[3];
    struct wire_sha256 nodes[6];
};

static void make_tree(struct tree *tree)
{
    static const char *const contents[3] = {"the bytes of 410's taste.onnx",
                                            "the bytes of 4d2's taste.onnx",
                                            "the bytes of ana's taste.onnx"};
    static const char *const subjects[3] = {"0000000000000410", "00000000000004d2", "ana"};
    assert_int_equal(wire_tree_nodes(3), TEST_COUNT(tree->nodes));
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t bytes[BLOCK_MAX];
        size_t size = make_exclusive(contents[i], bytes);
        tree->entries[i] = (struct wire_entry){
            .kind = i < 2 ? WIRE_SUBJECT_DEVICE : WIRE_SUBJECT_USER,
            .subject = base_str_of(subjects[i]),
            .exclusive = sha256(bytes, size),
            .bytes = (uint32_t)size,
        };
        wire_entry_leaf(&hasher, &tree->entries[i], &tree->nodes[i]);
    }
    wire_tree_build(&hasher, tree->nodes, 3);
}

static void exclusive_files_are_what_the_codecs_write(void **state)
{
    (void)state;
    struct tree tree;
    uint8_t bytes[BLOCK_MAX];
    make_tree(&tree);
    size_t size = make_exclusive("the bytes of 4d2's taste.onnx", bytes);
    expect("exclusive", bytes, size);
    struct wire_proof proof = {.entry = tree.entries[1], .leaf_count = 3, .index = 1};
    proof.path_count = wire_tree_path(tree.nodes, 3, 1, proof.path);
    assert_int_equal(wire_proof_encode(&proof, bytes, sizeof bytes, &size), BASE_OK);
    expect("proof", bytes, size);
    assert_int_equal(wire_proof_verify(&proof, &hasher, &tree.nodes[5]), BASE_OK);
    proof.path[0].bytes[0] ^= 1;
    assert_int_equal(wire_proof_verify(&proof, &hasher, &tree.nodes[5]), BASE_ERR_HASH);
}

static void make_manifest(struct example *example)
{
    struct tree tree;
    make_tree(&tree);
    static struct wire_manifest manifest;
    manifest = (struct wire_manifest){
        .task_name = BASE_STR("shop/page-view"),
        .version = BASE_STR("2.1.0"),
        .runtime_abi = 1,
        .entry = BASE_STR("main"),
        .heap_kib = 256,
        .time_ms = 2000,
        .every_s = 3600,
        .exclusive = WIRE_EXCLUSIVE_OPTIONAL,
        .exclusive_root = tree.nodes[5],
        .config = BASE_STR("{\"top\":5}"),
        .file_count = 2,
    };
    manifest.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_SCRIPT,
        .name = BASE_STR("main.mpy"),
        .bytes = 812,
        .digest = sha256("the bytes of main.mpy", 21),
    };
    manifest.files[1] = (struct wire_manifest_file){
        .kind = WIRE_FILE_MODEL,
        .name = BASE_STR("ranker.onnx"),
        .bytes = 40000,
        .digest = sha256("the bytes of ranker.onnx", 24),
    };
    assert_int_equal(
        wire_manifest_encode(&manifest, example->manifest, BLOCK_MAX, &example->manifest_size),
        BASE_OK);
    example->version = sha256(example->manifest, example->manifest_size);
}

static void make_example(struct example *example)
{
    make_manifest(example);
    struct wire_release release = {
        .task_name = BASE_STR("shop/page-view"),
        .release_counter = 5,
        .floor = 3,
        .manifest = example->version,
        .manifest_bytes = example->manifest_size,
        .rollout_id = ROLLOUT,
        .salt = SALT,
        .max_bucket = 500,
        .stage_kind = 2,
        .issued_s = 1790000000,
        .expires_s = 1790000000 + 30 * 86400,
    };
    assert_int_equal(
        wire_release_encode(&release, example->release, BLOCK_MAX, &example->release_size),
        BASE_OK);
    release.stage_kind = WIRE_STAGE_SHADOW;
    release.max_bucket = 200;
    release.shadow_slow_percent = 150;
    release.shadow_memory_percent = 200;
    release.tolerances = (struct wire_tolerances){
        .count = 2,
        .items = {{.relative = 0.25}, {.field_size = 2, .field = "id"}},
    };
    assert_int_equal(
        wire_release_encode(&release, example->shadow, BLOCK_MAX, &example->shadow_size), BASE_OK);
    read_hex("envelope", &example->envelope);
}

static void manifest_and_release_are_what_the_codecs_write(void **state)
{
    (void)state;
    static struct example example;
    make_example(&example);
    expect("manifest", example.manifest, example.manifest_size);
    expect("release", example.release, example.release_size);
    expect("shadow", example.shadow, example.shadow_size);
    assert_true(wire_version_id(&example.version) == VERSION_ID);
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&example.version, hex);
    assert_non_null(strstr(page, hex)); // told in words as well
}

static void envelope_verifies_with_the_named_key(void **state)
{
    (void)state;
    static struct example example;
    make_example(&example);
    struct wire_envelope envelope;
    assert_int_equal(wire_envelope_parse(example.envelope.bytes, example.envelope.size, &envelope),
                     BASE_OK);
    assert_int_equal(envelope.payload_bytes, example.release_size);
    assert_memory_equal(envelope.payload, example.release, example.release_size);

    static const char marker[] = "public key `";
    const char *text = strstr(page, marker);
    assert_non_null(text);
    uint8_t key[WIRE_PUBLIC_KEY_BYTES];
    struct base_str hex = {text + sizeof marker - 1, 2 * sizeof key};
    assert_int_equal(base_hex_decode(hex, key, sizeof key), BASE_OK);
    struct wire_sha256 key_id = sha256(key, sizeof key);
    assert_memory_equal(envelope.signatures[0].key_id, key_id.bytes, sizeof key_id.bytes);

    uint8_t message[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(
        wire_envelope_signed_bytes(envelope.type,
                                   (struct base_span){envelope.payload, envelope.payload_bytes},
                                   message, sizeof message, &size),
        BASE_OK);
    EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, sizeof key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_non_null(public_key);
    assert_non_null(context);
    assert_int_equal(EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key), 1);
    assert_int_equal(EVP_DigestVerify(context, envelope.signatures[0].bytes, WIRE_SIGNATURE_BYTES,
                                      message, size),
                     1);
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public_key);
}

static void offers_are_what_the_codec_writes(void **state)
{
    (void)state;
    static struct example example;
    make_example(&example);
    struct wire_offers offers = {.next_checkin_s = 600, .count = 1};
    offers.items[0].envelope = example.envelope.bytes;
    offers.items[0].envelope_bytes = example.envelope.size;
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    expect("offers", bytes, size);
    const uint8_t next[] = {WIRE_NEXT_MARK, 3, 0, 't', 't', 't', 's', 's'};
    const struct wire_offers brings = {.metadata = {next, sizeof next}};
    assert_int_equal(wire_offers_encode(&brings, bytes, sizeof bytes, &size), BASE_OK);
    expect("offers-metadata", bytes, size);
}

static size_t make_attrs(uint8_t *out)
{
    struct wire_attrs attrs = {
        .items = {{.name = BASE_STR("os"), .text = BASE_STR("android")},
                  {.name = BASE_STR("os_version"), .text = BASE_STR("14")},
                  {.name = BASE_STR("app_version"), .text = BASE_STR("3.4.1")},
                  {.name = BASE_STR("ram_mb"), .type = WIRE_ATTR_INTEGER, .integer = 4096},
                  {.name = BASE_STR("region"), .text = BASE_STR("eu")},
                  {.name = BASE_STR("beta_tester"), .type = WIRE_ATTR_BOOLEAN, .integer = 1}},
        .count = 6,
    };
    struct base_writer writer;
    base_writer_init(&writer, out, BLOCK_MAX);
    wire_attrs_write(&writer, &attrs);
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static void profile_is_what_the_codec_writes(void **state)
{
    (void)state;
    uint8_t attrs[BLOCK_MAX];
    size_t attrs_bytes = make_attrs(attrs);
    expect("attrs", attrs, attrs_bytes);
    struct wire_sha256 older = sha256("an older manifest", 17);
    const struct wire_profile_pair pairs[2] = {
        {wire_task_id(BASE_STR("shop/page-view")), wire_version_id(&older), 0, 4, 5},
        {0x1111, 0x2222, 0x3333, 9, 12},
    };
    static const uint8_t refused[] = {0x17, 0x7e, 0x0d, 0x5a, 0xc3, 0x42, 0x99, 0x01};
    struct wire_profile profile = {.tasks_max = 32,
                                   .interval_s = 300,
                                   .task_count = 2,
                                   .attrs = attrs,
                                   .attrs_bytes = attrs_bytes,
                                   .refused = refused,
                                   .refused_count = 1};
    profile.digest = wire_profile_refused_term(0x019942c35a0d7e17u);
    for (size_t i = 0; i < 2; i++) {
        profile.digest +=
            wire_profile_term(pairs[i].task_id, pairs[i].version_id, pairs[i].blocked_version_id);
    }
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(wire_profile_encode(&profile, pairs, bytes, sizeof bytes, &size), BASE_OK);
    expect("profile", bytes, size);

    char header[BLOCK_MAX] = "\nwalle-profile: ";
    size_t at = strlen(header);
    at += base_b64_encode(bytes, size, header + at);
    header[at++] = '\n';
    header[at] = '\0';
    assert_non_null(strstr(page, header));
    assert_non_null(strstr(page, "\nwalle-device: 00000000000004d2\n"));
}

static void report_is_what_the_codec_writes(void **state)
{
    (void)state;
    uint64_t task_id = wire_task_id(BASE_STR("shop/page-view"));
    static struct wire_report report;
    report =
        (struct wire_report){.device_id = DEVICE, .epoch = 0xc0ffee, .first_seq = 17, .count = 2};
    report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_ACTIVATED,
                                               .task_id = task_id,
                                               .version_id = VERSION_ID,
                                               .rollout_id = ROLLOUT,
                                               .duration_us = 1500};
    report.outcomes[1] = (struct wire_outcome){.kind = WIRE_OUTCOME_FAIL_EXCEPTION,
                                               .task_id = task_id,
                                               .version_id = VERSION_ID,
                                               .rollout_id = ROLLOUT,
                                               .duration_us = 230,
                                               .fingerprint = 0xfeed,
                                               .detail = BASE_STR("KeyError: main.py:12")};
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
    expect("report", bytes, size);
}

static void enrolment_is_what_the_codec_writes(void **state)
{
    (void)state;
    struct wire_enrolment enrolment = {
        .device_id = DEVICE,
        .credential = BASE_STR("wdt_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"),
    };
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size), BASE_OK);
    expect("enrolment", bytes, size);
}

// ---- Trust ----

// The keys of RFC 8032 section 7.1, tests 2 and 1.
static const char key_online[] = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
static const char key_offline[] =
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

static void root_is_what_the_codec_writes(void **state)
{
    (void)state;
    struct wire_root root = {
        .version = 1,
        .issued_s = 1790000000,
        .expires_s = 1790000000 + 365 * 86400,
        .wide_bucket = 500,
        .lease_max_s = 3600,
        .key_count = 2,
        .roles = {{1, 2}, {1, 1}, {1, 1}, {1, 1}},
        .delegation_count = 1,
        .delegations = {{BASE_STR("shop/"), 1, {1, 2}}},
    };
    assert_int_equal(base_hex_decode(base_str_of(key_online), root.keys[0], 32), BASE_OK);
    assert_int_equal(base_hex_decode(base_str_of(key_offline), root.keys[1], 32), BASE_OK);
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(wire_root_encode(&root, bytes, sizeof bytes, &size), BASE_OK);
    expect("root", bytes, size);
}

static void online_metadata_is_what_the_codecs_write(void **state)
{
    (void)state;
    static struct example example;
    make_example(&example);
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    uint64_t task_id = wire_task_id(BASE_STR("shop/page-view"));
    struct wire_sha256 older = sha256("an older manifest", 17);
    struct wire_snapshot_entry entries[2] = {{task_id, 5, example.version}, {task_id, 6, older}};
    struct wire_snapshot snapshot = {.scenario = BASE_STR("shop"),
                                     .version = 3,
                                     .issued_s = 1790000000,
                                     .expires_s = 1790000000 + 7 * 86400,
                                     .count = 2};
    assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size), BASE_OK);
    expect("snapshot", bytes, size);

    struct wire_timestamp timestamp = {.version = 9,
                                       .issued_s = 1790000000,
                                       .expires_s = 1790000000 + 86400,
                                       .scenario_count = 1,
                                       .kill_count = 1};
    timestamp.scenarios[0] = (struct wire_timestamp_scenario){
        BASE_STR("shop"), 3, size + 104, sha256("the envelope of that snapshot", 29)};
    timestamp.kills[0] = sha256("a manifest that must not run", 28);
    assert_int_equal(wire_timestamp_encode(&timestamp, bytes, sizeof bytes, &size), BASE_OK);
    expect("timestamp", bytes, size);

    struct wire_director director = {.device_id = 0x410,
                                     .order = 4,
                                     .issued_s = 1790000060,
                                     .timestamp_version = 9,
                                     .lease_s = 900,
                                     .count = 1};
    memset(director.nonce, 0x77, sizeof director.nonce);
    director.entries[0] =
        (struct wire_director_entry){task_id, 5, example.manifest_size, example.version};
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
    expect("director", bytes, size);

    uint8_t shared[WIRE_ANSWER_BYTES_MAX];
    struct wire_sha256 beside = sha256("the two answers beside it", 25);
    const struct wire_answer answer = {
        .way = {.leaves = 3, .index = 2, .path = &beside, .path_count = 1},
        .director = {bytes, size},
    };
    size_t shared_size = 0;
    assert_int_equal(wire_answer_encode(&answer, shared, sizeof shared, &shared_size), BASE_OK);
    expect("answer", shared, shared_size);

    struct wire_ask ask = {.flags = WIRE_ASK_FLAG_LEASE, .order = 3};
    char header[WIRE_ASK_TEXT_MAX + 32] = "\nwalle-nonce: ";
    char *text = header + strlen(header);
    memset(ask.nonce, 0x77, sizeof ask.nonce);
    wire_ask_text(&ask, text);
    assert_non_null(strstr(page, header));
    ask.flags = WIRE_ASK_FLAG_TREE | WIRE_ASK_FLAG_METADATA;
    ask.root_version = 1;
    ask.timestamp_version = 9;
    wire_ask_text(&ask, text);
    assert_non_null(strstr(page, header));

    uint8_t payload[8];
    struct wire_envelope stop = {.type = WIRE_ENVELOPE_TYPE_STOP, .payload = payload};
    assert_int_equal(wire_stop_encode(task_id, payload, sizeof payload, &stop.payload_bytes),
                     BASE_OK);
    assert_int_equal(wire_envelope_encode(&stop, bytes, sizeof bytes, &size), BASE_OK);
    expect("stop", bytes, size);
}

// ---- A delta, in three pieces ----

struct delta_content {
    float weights[6];
    char text[3];
};

static void add_piece(struct base_writer *writer, uint8_t form, uint32_t at, uint32_t size,
                      uint64_t *cursor)
{
    static const struct delta_content old = {{0.49999997f, 1.0000001f, 2.0f, 0.25f, 5.0f, 8.0f},
                                             {'e', 'n', 'd'}};
    static const struct delta_content fresh = {{0.5f, 1.0f, 2.0f, 0.25f, 4.0f, 8.0f},
                                               {'e', 'n', 'd'}};
    static uint8_t payload[WIRE_DELTA_PIECE_BYTES_MAX];
    uint8_t made[sizeof(fresh)];
    struct wire_delta_piece piece = {.form = form, .bytes = size, .from = at};
    const uint8_t *was = (const uint8_t *)&old + at;
    const uint8_t *is = (const uint8_t *)&fresh + at;
    assert_int_equal(wire_delta_split(&piece, was, is, payload), BASE_OK);
    wire_delta_piece_write(writer, &piece, cursor);
    base_writer_bytes(writer, payload, wire_delta_payload_bytes(&piece));
    assert_int_equal(wire_delta_join(&piece, was, payload, made), BASE_OK);
    assert_memory_equal(made, is, size);
}

static void pieces_are_what_the_codec_writes(void **state)
{
    (void)state;
    uint8_t bytes[BLOCK_MAX];
    struct base_writer writer;
    uint64_t cursor = 0;
    base_writer_init(&writer, bytes, sizeof bytes);
    add_piece(&writer, WIRE_DELTA_F32, 0, 16, &cursor);
    add_piece(&writer, WIRE_DELTA_F32 | WIRE_DELTA_WHOLE | WIRE_DELTA_SPARSE, 16, 8, &cursor);
    add_piece(&writer, WIRE_DELTA_COPY, 24, 3, &cursor);
    assert_int_equal(writer.status, BASE_OK);
    expect("pieces", bytes, base_writer_size(&writer));
}

static void every_example_parses(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        wire_check_fn check;
    } rows[] = {{"attrs", wire_check_attrs},
                {"profile", wire_check_profile},
                {"manifest", wire_check_manifest},
                {"release", wire_check_release},
                {"shadow", wire_check_release},
                {"envelope", wire_check_envelope},
                {"offers", wire_check_offers},
                {"enrolment", wire_check_enrolment},
                {"offers-metadata", wire_check_offers},
                {"report", wire_check_report},
                {"root", wire_check_root},
                {"snapshot", wire_check_snapshot},
                {"timestamp", wire_check_timestamp},
                {"director", wire_check_director},
                {"exclusive", wire_check_exclusive},
                {"proof", wire_check_proof},
                {"stop", wire_check_envelope},
                {"answer", wire_check_answer}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct block block;
        read_hex(rows[i].name, &block);
        assert_int_equal(rows[i].check(block.bytes, block.size), BASE_OK);
    }
}

// ---- Vectors and tables ----

static uint64_t next_word(const char **at, bool hex)
{
    const char *start = *at;
    size_t size = strcspn(start, " \n");
    uint64_t value = 0;
    struct base_str word = {start, size};
    enum base_status status = hex ? wire_device_parse(word, &value) : base_str_u64(word, &value);
    assert_int_equal(status, BASE_OK);
    *at = start + size + 1;
    return value;
}

static void vectors_are_the_code(void **state)
{
    (void)state;
    unsigned rows = 0;
    for (const char *at = find_block("vectors", "term"); strncmp(at, "```", 3) != 0; rows++) {
        uint64_t task = next_word(&at, true);
        uint64_t version = next_word(&at, true);
        uint64_t blocked = next_word(&at, true);
        assert_true(wire_profile_term(task, version, blocked) == next_word(&at, true));
    }
    assert_int_equal(rows, 8);
    rows = 0;
    for (const char *at = find_block("vectors", "bucket"); strncmp(at, "```", 3) != 0; rows++) {
        uint64_t device = next_word(&at, true);
        uint64_t salt = next_word(&at, true);
        assert_int_equal(pol_bucket(device, salt), next_word(&at, false));
    }
    assert_int_equal(rows, 8);
}

static void event_block_is_what_the_codec_writes(void **state)
{
    (void)state;
    static const uint8_t attrs[] = {3, 'p', 'o', 's', 1, 6, 2, 'o', 'k', 3, 1};
    const struct wire_event events[] = {
        {.seq = 7,
         .wall_ms = 1000,
         .mono_us = 500,
         .visit = 2,
         .kind = 1,
         .page = BASE_STR("home")},
        {.seq = 9,
         .wall_ms = 1250,
         .mono_us = 600,
         .visit = 2,
         .instance = 1,
         .kind = 4,
         .page = BASE_STR("home"),
         .item = BASE_STR("buy"),
         .attrs = attrs,
         .attrs_bytes = sizeof(attrs),
         .attr_count = 2},
    };
    uint8_t bytes[BLOCK_MAX];
    size_t size = 0;
    assert_int_equal(
        wire_event_block_encode(&(struct wire_event_list){events, TEST_COUNT(events), 5}, bytes,
                                BLOCK_MAX, &size),
        BASE_OK);
    expect("event-block", bytes, size);
    assert_int_equal(wire_check_event_block(bytes, size), BASE_OK);
}

#define LIMIT(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct limit limits[] = {
    LIMIT(WIRE_SHADOW_PERCENT_MIN),
    LIMIT(WIRE_SHADOW_PERCENT_MAX),
    LIMIT(WIRE_TOLERANCES_MAX),
    LIMIT(WIRE_TOLERANCE_FIELD_MAX),
    LIMIT(WIRE_ATTRS_MAX),
    LIMIT(WIRE_ATTRS_BYTES_MAX),
    LIMIT(WIRE_ATTR_NAME_MAX),
    LIMIT(WIRE_ATTR_STRING_MAX),
    LIMIT(WIRE_PROFILE_TASKS_MAX),
    LIMIT(WIRE_PROFILE_REFUSED_MAX),
    LIMIT(WIRE_PROFILE_INLINE_PAIRS),
    LIMIT(WIRE_PROFILE_BYTES_MAX),
    LIMIT(WIRE_TASK_NAME_MAX),
    LIMIT(WIRE_MANIFEST_BYTES_MAX),
    LIMIT(WIRE_MANIFEST_FILES_MAX),
    LIMIT(WIRE_MANIFEST_CONFIG_MAX),
    LIMIT(WIRE_DECLARATION_BYTES_MAX),
    LIMIT(WIRE_DECLARATION_TRIGGERS_MAX),
    LIMIT(WIRE_DECLARATION_PATTERN_MAX),
    LIMIT(WIRE_DECLARATION_ATTRIBUTES_MAX),
    LIMIT(WIRE_DECLARATION_UPLOADS_MAX),
    LIMIT(WIRE_DECLARATION_SCHEMA_MAX),
    LIMIT(WIRE_DECLARATION_LEAVES_MAX),
    LIMIT(WIRE_LEAVES_FIELDS_MAX),
    LIMIT(WIRE_LEAVES_PATH_MAX),
    LIMIT(WIRE_LEAVES_DEPTH_MAX),
    LIMIT(WIRE_LEAVES_MODELS_MAX),
    LIMIT(WIRE_LEAVES_INPUTS_MAX),
    LIMIT(WIRE_LEAVES_NAME_MAX),
    LIMIT(WIRE_DECLARATION_EVENTS_MAX),
    LIMIT(WIRE_DECLARATION_EVENTS_S_MAX),
    LIMIT(WIRE_EXCLUSIVE_FILES_MAX),
    LIMIT(WIRE_EXCLUSIVE_BYTES_MAX),
    LIMIT(WIRE_SUBJECTS_MAX),
    LIMIT(WIRE_SUBJECT_MAX),
    LIMIT(WIRE_PROOF_BYTES_MAX),
    LIMIT(WIRE_VERSION_TEXT_MAX),
    LIMIT(WIRE_FILE_NAME_MAX),
    LIMIT(WIRE_FILE_BYTES_MAX),
    LIMIT(WIRE_STATEMENT_BYTES_MAX),
    LIMIT(WIRE_STATEMENT_SIGNATURES),
    LIMIT(WIRE_OFFERS_MAX),
    LIMIT(WIRE_AGAIN_MAX),
    LIMIT(WIRE_OFFERS_BYTES_MAX),
    LIMIT(WIRE_OFFERS_HEADER_MAX),
    LIMIT(WIRE_OFFERS_META_MAX),
    LIMIT(WIRE_REPORT_MAX),
    LIMIT(WIRE_CREDENTIAL_MAX),
    LIMIT(WIRE_REPORT_BYTES_MAX),
    LIMIT(WIRE_REPORT_HEADER_MAX),
    LIMIT(WIRE_REPORT_DETAIL_MAX),
    LIMIT(POL_BUCKET_COUNT),
    LIMIT(WIRE_META_BYTES_MAX),
    LIMIT(WIRE_SNAPSHOT_BYTES_MAX),
    LIMIT(WIRE_ROOT_KEYS_MAX),
    LIMIT(WIRE_ROOT_DELEGATIONS_MAX),
    LIMIT(WIRE_ROOT_LEASE_S_MAX),
    LIMIT(WIRE_SCENARIO_MAX),
    LIMIT(WIRE_SNAPSHOT_ENTRIES_MAX),
    LIMIT(WIRE_TIMESTAMP_SCENARIOS_MAX),
    LIMIT(WIRE_TIMESTAMP_KILLS_MAX),
    LIMIT(WIRE_DIRECTOR_ENTRIES_MAX),
    LIMIT(WIRE_ANSWER_BYTES_MAX),
    LIMIT(WIRE_ANSWERS_MAX),
    LIMIT(WIRE_EVENT_BLOCK_EVENTS_MAX),
    LIMIT(WIRE_EVENT_BLOCK_BYTES_MAX),
    LIMIT(WIRE_EVENT_BLOCK_TEXTS_MAX),
    LIMIT(WIRE_EVENT_BLOCK_NAMES_MAX),
    LIMIT(WIRE_EVENT_PAGE_MAX),
    LIMIT(WIRE_EVENT_ITEM_MAX),
    LIMIT(WIRE_EVENT_ATTR_NAME_MAX),
    LIMIT(WIRE_EVENT_ATTRS_MAX),
    LIMIT(WIRE_EVENT_ATTRS_BYTES),
    LIMIT(WIRE_TUNNEL_DICT_BYTES_MIN),
    LIMIT(WIRE_TUNNEL_DICT_BYTES_MAX),
    LIMIT(WIRE_DELTA_PIECE_BYTES_MAX),
    LIMIT(WIRE_DELTA_WINDOW_LOG_MAX),
};
#undef LIMIT

static void limits_are_the_code(void **state)
{
    (void)state;
    check_limits(limits, TEST_COUNT(limits));
}

static void codes_are_the_code(void **state)
{
    (void)state;
    char cell[64];
#define CELL(code, name)                                                                           \
    (void)snprintf(cell, sizeof cell, "| %d | `%s`", code, name);                                  \
    assert_non_null(strstr(page, cell));
    WIRE_ATTR_CODES(CELL)
#undef CELL
#define CELL(NAME, code, name)                                                                     \
    (void)snprintf(cell, sizeof cell, "| %d | `%s`", code, name);                                  \
    assert_non_null(strstr(page, cell));
    WIRE_OUTCOME_MAP(CELL)
#undef CELL
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_and_release_are_what_the_codecs_write),
        cmocka_unit_test(exclusive_files_are_what_the_codecs_write),
        cmocka_unit_test(envelope_verifies_with_the_named_key),
        cmocka_unit_test(offers_are_what_the_codec_writes),
        cmocka_unit_test(profile_is_what_the_codec_writes),
        cmocka_unit_test(report_is_what_the_codec_writes),
        cmocka_unit_test(enrolment_is_what_the_codec_writes),
        cmocka_unit_test(root_is_what_the_codec_writes),
        cmocka_unit_test(online_metadata_is_what_the_codecs_write),
        cmocka_unit_test(event_block_is_what_the_codec_writes),
        cmocka_unit_test(pieces_are_what_the_codec_writes),
        cmocka_unit_test(every_example_parses),
        cmocka_unit_test(vectors_are_the_code),
        cmocka_unit_test(limits_are_the_code),
        cmocka_unit_test(codes_are_the_code),
    };
    return cmocka_run_group_tests(tests, read_page, NULL);
}
