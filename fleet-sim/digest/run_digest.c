// The digest of a run in virtual time: what recorders took, second by second, and the root over all
// of it. Recorders are called on the thread that runs their line; the rest once, at the end of a
// run, by fleet_virtual.c, and by diff_main.c, which reads two of them.
#include "digest/run_digest.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/cursor.h"
#include "base/os/output_file.h"
#include "base/prng.h"
#include "people/sim_local_file.h"
#include "wire/outcome.h"

#include <stdlib.h>
#include <string.h>

#define VERSION       1
#define HEADER_BYTES  24u
#define SECOND_US     1000000u
#define SECONDS_FIRST 64u

static const uint8_t magic[8] = {'W', 'S', 'I', 'M', 'D', 'I', 'G', 'E'};

static const char *const names[SIM_EVENT_KIND_COUNT] = {
    [SIM_EVENT_WAKE] = "wake",     [SIM_EVENT_REQUEST] = "request", [SIM_EVENT_ANSWER] = "answer",
    [SIM_EVENT_FAULT] = "fault",   [SIM_EVENT_RUN] = "run",         [SIM_EVENT_SAVED] = "saved",
    [SIM_EVENT_KILLED] = "killed", [SIM_EVENT_HANDLED] = "handled", [SIM_EVENT_REPLIED] = "replied",
    [SIM_EVENT_STREAM] = "stream", [SIM_EVENT_BECAME] = "became",
};

const char *sim_event_name(enum sim_event_kind kind)
{
    base_assert((uint32_t)kind < SIM_EVENT_KIND_COUNT);
    return names[kind];
}

// One more word behind those that `leaf` is of: the order counts.
static void mix(struct sim_leaf *leaf, uint64_t word)
{
    leaf->words[0] = base_mix64(leaf->words[0] ^ word);
    leaf->words[1] = base_mix64(leaf->words[1] + word) ^ leaf->words[0];
}

// ---- Recorders

void sim_recorder_begin(struct sim_recorder *recorder, uint64_t start_us)
{
    recorder->start_us = start_us;
    recorder->taking = true;
}

void sim_recorder_done(struct sim_recorder *recorder)
{
    free(recorder->leaves);
    *recorder = (struct sim_recorder){0};
}

// Leaves up to this second. False: there is no memory for them.
static bool reach(struct sim_recorder *recorder, uint64_t second)
{
    if (second >= SIM_DIGEST_SECONDS_MAX) {
        return false;
    }
    uint32_t capacity = recorder->capacity > 0 ? recorder->capacity : SECONDS_FIRST;
    while (capacity <= second) {
        capacity *= 2;
    }
    if (capacity > recorder->capacity) {
        struct sim_leaf *leaves = realloc(recorder->leaves, sizeof(*leaves) * capacity);
        if (leaves == NULL) {
            return false;
        }
        recorder->leaves = leaves;
        recorder->capacity = capacity;
    }
    while (recorder->count <= second) {
        recorder->leaves[recorder->count++] = (struct sim_leaf){{0, 0}};
    }
    return true;
}

static void trace(const struct sim_recorder *recorder, const struct sim_event *event)
{
    char value[32];
    (void)snprintf(value, sizeof(value), "%llx", (unsigned long long)event->value);
    if (event->kind == SIM_EVENT_ANSWER || event->kind == SIM_EVENT_WAKE) {
        (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)event->value);
    }
    bool run = event->kind == SIM_EVENT_RUN;
    (void)fprintf(recorder->trace, "%llu.%06llu device %llu %s %s\n",
                  (unsigned long long)(event->at_us / SECOND_US),
                  (unsigned long long)(event->at_us % SECOND_US), (unsigned long long)event->index,
                  sim_event_name(event->kind),
                  run ? wire_outcome_name((enum wire_outcome_kind)event->value) : value);
}

void sim_recorder_take(struct sim_recorder *recorder, uint64_t at_us, const struct sim_event *event)
{
    if (!recorder->taking) {
        return;
    }
    struct sim_event placed = *event;
    placed.at_us = at_us - recorder->start_us;
    uint64_t second = placed.at_us / SECOND_US;
    if (second >= recorder->count && !reach(recorder, second)) {
        recorder->lost = true;
        return;
    }
    base_assert(second + 1 == recorder->count); // time does not go back
    struct sim_leaf *leaf = &recorder->leaves[second];
    mix(leaf, placed.at_us);
    mix(leaf, placed.index << 8 | (uint64_t)placed.kind);
    mix(leaf, placed.value);
    if (recorder->trace != NULL && recorder->second == second) {
        trace(recorder, &placed);
    }
}

// ---- The digest

enum base_status sim_digest_make(struct sim_recorder *const *recorders, uint32_t count,
                                 struct sim_digest *out)
{
    struct sim_digest digest = {.lines = count};
    base_assert(count <= SIM_DIGEST_LINES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t seconds = recorders[i]->count;
        digest.seconds = seconds > digest.seconds ? seconds : digest.seconds;
        if (recorders[i]->lost) {
            return BASE_ERR_LIMIT;
        }
    }
    digest.leaves = calloc((size_t)digest.seconds * count + 1, sizeof(struct sim_leaf));
    if (digest.leaves == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < recorders[i]->count; s++) {
            digest.leaves[(size_t)s * count + i] = recorders[i]->leaves[s];
        }
    }
    *out = digest;
    return BASE_OK;
}

void sim_digest_done(struct sim_digest *digest)
{
    free(digest->leaves);
    *digest = (struct sim_digest){0};
}

static struct sim_leaf join(const struct sim_leaf *left, const struct sim_leaf *right)
{
    struct sim_leaf out = {{0, 1}};
    mix(&out, left->words[0]);
    mix(&out, left->words[1]);
    mix(&out, right->words[0]);
    mix(&out, right->words[1]);
    return out;
}

// Root over all leaves, of the shape of RFC 9162, 2.1: subtrees of equal size are joined as soon as
// there are two, what is left at the end from the right.
static struct sim_leaf root_of(const struct sim_leaf *leaves, uint64_t count)
{
    struct sim_leaf trees[64];
    uint32_t tree_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        trees[tree_count++] = leaves[i];
        for (uint64_t twins = i + 1; (twins & 1) == 0; twins >>= 1) {
            tree_count--;
            trees[tree_count - 1] = join(&trees[tree_count - 1], &trees[tree_count]);
        }
    }
    while (tree_count > 1) {
        tree_count--;
        trees[tree_count - 1] = join(&trees[tree_count - 1], &trees[tree_count]);
    }
    return tree_count == 1 ? trees[0] : (struct sim_leaf){{0, 0}};
}

void sim_digest_root(const struct sim_digest *digest, char out[SIM_DIGEST_HEX + 1])
{
    struct sim_leaf root = root_of(digest->leaves, (uint64_t)digest->lines * digest->seconds);
    mix(&root, digest->lines);
    mix(&root, digest->seconds);
    (void)snprintf(out, SIM_DIGEST_HEX + 1, "%016llx%016llx", (unsigned long long)root.words[0],
                   (unsigned long long)root.words[1]);
}

// ---- Files

static void file_of(const char *folder, char out[BASE_OUTPUT_PATH_MAX])
{
    (void)snprintf(out, BASE_OUTPUT_PATH_MAX, "%.4000s/" SIM_DIGEST_FILE, folder);
}

enum base_status sim_digest_write(const struct sim_digest *digest, const char *folder,
                                  struct base_error *error)
{
    char path[BASE_OUTPUT_PATH_MAX];
    size_t leaves = (size_t)digest->lines * digest->seconds;
    size_t size = HEADER_BYTES + leaves * sizeof(struct sim_leaf);
    uint8_t *bytes = malloc(size);
    struct base_writer writer;
    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_writer_init(&writer, bytes, size);
    base_writer_bytes(&writer, magic, sizeof(magic));
    base_writer_u32(&writer, VERSION);
    base_writer_u32(&writer, digest->lines);
    base_writer_u32(&writer, digest->seconds);
    base_writer_u32(&writer, digest->lines - 1);
    for (size_t i = 0; i < leaves; i++) {
        base_writer_u64(&writer, digest->leaves[i].words[0]);
        base_writer_u64(&writer, digest->leaves[i].words[1]);
    }
    base_check(writer.status == BASE_OK);
    file_of(folder, path);
    enum base_status status = base_output_write(path, bytes, size, error);
    free(bytes);
    return status;
}

// The header. False: it is none.
static bool header_read(struct base_reader *reader, struct sim_digest *out)
{
    uint8_t word[sizeof(magic)];
    base_reader_copy(reader, word, sizeof(word));
    uint32_t version = base_reader_u32(reader);
    out->lines = base_reader_u32(reader);
    out->seconds = base_reader_u32(reader);
    uint32_t shards = base_reader_u32(reader);
    return reader->status == BASE_OK && memcmp(word, magic, sizeof(magic)) == 0 &&
           version == VERSION && out->lines > 0 && out->lines <= SIM_DIGEST_LINES_MAX &&
           out->seconds <= SIM_DIGEST_SECONDS_MAX && shards + 1 == out->lines;
}

static enum base_status parse(const struct base_buffer *bytes, struct sim_digest *out)
{
    struct base_reader reader;
    struct sim_digest digest = {0};
    base_reader_init(&reader, bytes->data, bytes->size);
    if (!header_read(&reader, &digest)) {
        return BASE_ERR_CORRUPT;
    }
    size_t leaves = (size_t)digest.lines * digest.seconds;
    if (bytes->size != HEADER_BYTES + leaves * sizeof(struct sim_leaf)) {
        return BASE_ERR_CORRUPT;
    }
    digest.leaves = malloc(leaves * sizeof(struct sim_leaf) + 1);
    if (digest.leaves == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < leaves; i++) {
        digest.leaves[i].words[0] = base_reader_u64(&reader);
        digest.leaves[i].words[1] = base_reader_u64(&reader);
    }
    *out = digest;
    return BASE_OK;
}

enum base_status sim_digest_read(const char *folder, struct sim_digest *out,
                                 struct base_error *error)
{
    char path[BASE_OUTPUT_PATH_MAX];
    struct base_buffer bytes;
    file_of(folder, path);
    BASE_TRY(sim_local_read(path, SIM_DIGEST_BYTES_MAX, &bytes, error));
    enum base_status status = parse(&bytes, out);
    base_buffer_done(&bytes);
    const char *why = status == BASE_ERR_CORRUPT ? "no digest of a run, or of another version"
                                                 : base_status_text(status);
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", path, why);
}

bool sim_digest_part(const struct sim_digest *a, const struct sim_digest *b, uint32_t *out_line,
                     uint32_t *out_second)
{
    static const struct sim_leaf none = {{0, 0}};
    base_assert(a->lines == b->lines);
    uint32_t seconds = a->seconds > b->seconds ? a->seconds : b->seconds;
    for (uint32_t s = 0; s < seconds; s++) {
        for (uint32_t i = 0; i < a->lines; i++) {
            size_t at = (size_t)s * a->lines + i;
            const struct sim_leaf *of_a = s < a->seconds ? &a->leaves[at] : &none;
            const struct sim_leaf *of_b = s < b->seconds ? &b->leaves[at] : &none;
            if (memcmp(of_a, of_b, sizeof(*of_a)) != 0) {
                *out_line = i;
                *out_second = s;
                return true;
            }
        }
    }
    return false;
}
