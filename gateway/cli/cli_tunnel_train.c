// Command `walle tunnel train`: a dictionary out of records the tunnel brought. One thread.
//
// Samples are lines: a line of `walle tunnel export` stands for its record, as a batch of its own
// as it travels; any other line for itself. When there are more than are wanted, an even choice of
// them is kept (a reservoir with a fixed seed: the same lines make the same dictionary). The
// records of a tenth of the devices are held out to say what the dictionary is worth on records it
// has not seen; of a tenth of the records, where there are too few devices for that. A dictionary
// that makes them hardly smaller is not written.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/dict_train.h"
#include "base/os/output_file.h"
#include "base/hash.h"
#include "base/prng.h"
#include "base/os/regular_file.h"
#include "wire/batch.h"
#include "wire/tunnel_dict.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES (1024 * 1024 + 4096)
#define FILES_MAX      100000
#define HELD_OUT       10          // one sample in so many
#define WORTH_PERCENT  95          // of their size alone: with the dictionary at most so much
#define SAMPLE_MAX     (16 * 1024) // beyond, the tunnel uses no dictionary

struct sample {
    uint8_t *bytes;
    size_t size;
    bool held; // not learnt from
};

struct gather {
    const char *task; // NULL: all
    struct base_prng prng;
    char *line;
    uint64_t lines;
    uint64_t others; // lines of other tasks
    uint64_t losses; // lines that declare records lost
    uint64_t large;  // over SAMPLE_MAX
    uint64_t seen;   // fit for samples
    uint64_t files;
    size_t total;
    uint32_t count;
    struct sample *samples; // DICT_TRAIN_SAMPLES_MAX
};

static void gather_done(struct gather *gather)
{
    for (uint32_t i = 0; gather->samples != NULL && i < gather->count; i++) {
        free(gather->samples[i].bytes);
    }
    free(gather->samples);
    free(gather->line);
}

// Takes a place free of charge while there is room, then that of another with falling odds.
static enum base_status sample_add(struct gather *gather, uint64_t owner, const void *bytes,
                                   size_t size)
{
    if (size == 0 || size > SAMPLE_MAX) {
        gather->large += size > SAMPLE_MAX;
        return BASE_OK;
    }
    uint64_t place = gather->count;
    gather->seen++;
    if (gather->count == DICT_TRAIN_SAMPLES_MAX || gather->total + size > DICT_TRAIN_TOTAL_MAX) {
        place = base_prng_below(&gather->prng, gather->seen);
        if (place >= gather->count) {
            return BASE_OK;
        }
        gather->total -= gather->samples[place].size;
        free(gather->samples[place].bytes);
        gather->samples[place] = (struct sample){0};
    } else {
        gather->count++;
    }
    uint8_t *copy = malloc(size);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(copy, bytes, size);
    gather->samples[place] = (struct sample){copy, size, owner % HELD_OUT == HELD_OUT - 1};
    gather->total += size;
    return BASE_OK;
}

static enum base_status record_add(struct gather *gather, const json_t *line, const char *task,
                                   const json_t *record, uint64_t owner)
{
    uint8_t batch[SAMPLE_MAX];
    size_t size = 0;
    const char *upload = json_string_value(json_object_get(line, "upload"));
    json_int_t schema = json_integer_value(json_object_get(line, "schema"));
    char *text = json_dumps(record, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct wire_upload_key key = {base_str_of(task),
                                  base_str_of(upload != NULL ? upload : "events"),
                                  schema > 0 && schema <= UINT16_MAX ? (uint16_t)schema : 1};
    struct wire_record out = {.format = WIRE_RECORD_JSON,
                              .wall_ms = 1,
                              .bytes = (const uint8_t *)text,
                              .size = (uint32_t)strlen(text)};
    enum base_status status = wire_batch_encode(&(struct wire_batch_content){&key, 1, &out, 1},
                                                batch, sizeof(batch), &size);
    free(text);
    // What is too large for a sample, or no record, teaches nothing.
    gather->large += status == BASE_ERR_TOO_LARGE;
    return status == BASE_OK ? sample_add(gather, owner, batch, size) : BASE_OK;
}

// A line of an export is an object with "task" and "record".
static enum base_status line_add(struct gather *gather, size_t size)
{
    gather->lines++;
    json_t *root = json_loadb(gather->line, size, JSON_ALLOW_NUL, NULL);
    const char *task = json_string_value(json_object_get(root, "task"));
    json_t *record = json_object_get(root, "record");
    const char *device = json_string_value(json_object_get(root, "device"));
    uint64_t owner = device != NULL ? base_hash64(device, strlen(device)) : gather->lines;
    enum base_status status = BASE_OK;
    if (gather->task != NULL && (task == NULL || strcmp(task, gather->task) != 0)) {
        gather->others++;
    } else if (json_object_get(root, "lost") != NULL && record == NULL) {
        gather->losses++;
    } else if (task == NULL || record == NULL) {
        status = sample_add(gather, owner, gather->line, size);
    } else {
        status = record_add(gather, root, task, record, owner);
    }
    json_decref(root);
    return status;
}

static enum base_status file_add(struct gather *gather, const char *path, struct base_error *error)
{
    FILE *file = NULL;
    enum base_status status = base_regular_stream(path, &file, error);
    if (status != BASE_OK) {
        return status;
    }
    gather->files++;
    while (status == BASE_OK && fgets(gather->line, LINE_MAX_BYTES, file) != NULL) {
        size_t size = strlen(gather->line);
        if (size ==
            0) { // it begins with a NUL: of a file with a hole perhaps, which may be endless
            status = base_error_set(error, BASE_ERR_INVALID, "%s: no text", path);
            break;
        }
        if (size + 1 == LINE_MAX_BYTES && gather->line[size - 1] != '\n') {
            status = base_error_set(error, BASE_ERR_TOO_LARGE, "%s: a line is longer than %d bytes",
                                    path, LINE_MAX_BYTES);
            break;
        }
        size -= size > 0 && gather->line[size - 1] == '\n';
        status = line_add(gather, size);
    }
    if (status == BASE_OK && ferror(file)) {
        status = base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    (void)fclose(file);
    return status;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static enum base_status folder_add(struct gather *gather, const char *path,
                                   struct base_error *error)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, is_visible, by_name);
    enum base_status status = BASE_OK;
    if (count < 0) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        char full[4096];
        struct stat info;
        int size = snprintf(full, sizeof(full), "%s/%s", path, names[i]->d_name);
        if (status == BASE_OK && i < FILES_MAX && size > 0 && (size_t)size < sizeof(full) &&
            stat(full, &info) == 0 && S_ISREG(info.st_mode)) {
            status = file_add(gather, full, error);
        }
        free(names[i]);
    }
    free(names);
    return status;
}

static enum base_status gather_from(struct gather *gather, const char *path,
                                    struct base_error *error)
{
    struct stat info;
    base_prng_seed(&gather->prng, 1);
    gather->line = malloc(LINE_MAX_BYTES);
    gather->samples = calloc(DICT_TRAIN_SAMPLES_MAX, sizeof(*gather->samples));
    if (gather->line == NULL || gather->samples == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (stat(path, &info) != 0) {
        return base_error_set(error, BASE_ERR_IO, "--from %s: %s", path, strerror(errno));
    }
    return S_ISDIR(info.st_mode) ? folder_add(gather, path, error) : file_add(gather, path, error);
}

// With the records of a few devices a tenth of these may be none, or all.
static void hold_out(struct gather *gather)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < gather->count; i++) {
        held += gather->samples[i].held;
    }
    if (held > 0 && gather->count - held >= DICT_TRAIN_SAMPLES_MIN) {
        return;
    }
    for (uint32_t i = 0; i < gather->count; i++) {
        gather->samples[i].held = i % HELD_OUT == HELD_OUT - 1;
    }
}

// Those to learn from first, those held out behind them.
static enum base_status lay_out(const struct gather *gather, struct dict_samples *out,
                                uint32_t *out_learn)
{
    struct dict_samples samples = {.bytes = malloc(gather->total + 1),
                                   .sizes = malloc((gather->count + 1) * sizeof(size_t))};
    if (samples.bytes == NULL || samples.sizes == NULL) {
        free(samples.bytes);
        free(samples.sizes);
        return BASE_ERR_NOMEM;
    }
    for (int held = 0; held < 2; held++) {
        for (uint32_t i = 0; i < gather->count; i++) {
            const struct sample *sample = &gather->samples[i];
            if (sample->held != (held == 1)) {
                continue;
            }
            memcpy(samples.bytes + samples.total, sample->bytes, sample->size);
            samples.total += sample->size;
            samples.sizes[samples.count++] = sample->size;
        }
        *out_learn = held == 0 ? samples.count : *out_learn;
    }
    *out = samples;
    return BASE_OK;
}

struct trained {
    uint8_t *bytes;
    size_t size;
    struct wire_sha256 digest;
    uint32_t learnt;
    uint32_t held_out;
    struct dict_gain gain;
};

static double ratio(size_t raw, size_t packed)
{
    return packed > 0 ? (double)raw / (double)packed : 0.0;
}

static enum base_status too_few(const struct gather *gather, uint32_t learn,
                                struct base_error *error)
{
    return base_error_set(
        error, BASE_ERR_INVALID,
        "cannot learn: %u samples; at least %d are needed; of %llu lines %llu are "
        "of other tasks, %llu losses, %llu over %d bytes",
        learn, DICT_TRAIN_SAMPLES_MIN, (unsigned long long)gather->lines,
        (unsigned long long)gather->others, (unsigned long long)gather->losses,
        (unsigned long long)gather->large, SAMPLE_MAX);
}

static enum base_status train(struct gather *gather, size_t capacity, struct trained *out,
                              struct base_error *error)
{
    struct dict_samples samples;
    uint32_t learn = 0;
    hold_out(gather);
    BASE_TRY(lay_out(gather, &samples, &learn));
    if (learn < DICT_TRAIN_SAMPLES_MIN) {
        free(samples.bytes);
        free(samples.sizes);
        return too_few(gather, learn, error);
    }
    struct dict_samples learnt = samples;
    learnt.count = learn;
    out->learnt = learn;
    out->held_out = samples.count - learn;
    out->bytes = malloc(capacity);
    enum base_status status = out->bytes != NULL
                                  ? dict_train(&learnt, out->bytes, capacity, &out->size, error)
                                  : BASE_ERR_NOMEM;
    if (status == BASE_OK) {
        (void)SHA256(out->bytes, out->size, out->digest.bytes);
        status = dict_measure(&samples, learn, out->bytes, out->size, &out->gain);
    }
    free(samples.bytes);
    free(samples.sizes);
    if (status == BASE_OK && out->gain.dict * 100 > out->gain.plain * WORTH_PERCENT) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "cannot learn: %u records that were held out compress %.2fx alone and "
            "%.2fx with a dictionary; they have nothing in common that helps",
            out->held_out, ratio(out->gain.raw, out->gain.plain),
            ratio(out->gain.raw, out->gain.dict));
    }
    return status;
}

static void tell(const struct cli *cli, const char *path, const struct trained *trained)
{
    char hex[WIRE_SHA256_HEX + 1];
    const struct dict_gain *gain = &trained->gain;
    wire_sha256_hex(&trained->digest, hex);
    if (cli->json) {
        char id[9];
        (void)snprintf(id, sizeof(id), "%08" PRIx32, wire_tunnel_dict_id(&trained->digest));
        json_t *root = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f}", "file", path, "id", id, "sha256", hex,
            "bytes", (json_int_t)trained->size, "samples", (json_int_t)trained->learnt, "held_out",
            (json_int_t)trained->held_out, "plain_ratio", ratio(gain->raw, gain->plain),
            "dict_ratio", ratio(gain->raw, gain->dict));
        cli_json_print(root);
        json_decref(root);
        return;
    }
    printf("%s: dictionary %08" PRIx32 ", %zu bytes, sha256 %s\n", path,
           wire_tunnel_dict_id(&trained->digest), trained->size, hex);
    printf("learnt from %u records; %u held out, %.0f bytes each on average, compress %.2fx alone "
           "and %.2fx with the dictionary\n",
           trained->learnt, trained->held_out,
           (double)gain->raw / (trained->held_out > 0 ? trained->held_out : 1),
           ratio(gain->raw, gain->plain), ratio(gain->raw, gain->dict));
}

enum cli_exit cli_tunnel_train(struct cli *cli)
{
    const char *from = cli->values[CLI_OPTION_FROM];
    const char *path = cli->values[CLI_OPTION_OUT];
    struct base_error error = {0};
    uint64_t capacity = 0;
    if (from == NULL || path == NULL || from[0] == '\0' || path[0] == '\0') {
        return cli_fail(CLI_EXIT_USAGE,
                        "--from PATH (records) and --out FILE (the dictionary) are needed");
    }
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_SIZE, DICT_TRAIN_BYTES,
                                        WIRE_TUNNEL_DICT_BYTES_MAX, &capacity);
    if (code == CLI_EXIT_OK && capacity < 1024) {
        code = cli_fail(CLI_EXIT_USAGE, "--size: at least 1024");
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    struct gather gather = {.task = cli->values[CLI_OPTION_TASK]};
    struct trained trained = {0};
    enum base_status status = gather_from(&gather, from, &error);
    if (status == BASE_OK) {
        status = train(&gather, capacity, &trained, &error);
    }
    if (status == BASE_OK) {
        status = base_output_write(path, trained.bytes, trained.size, &error);
    }
    if (status == BASE_OK) {
        tell(cli, path, &trained);
    } else {
        code = cli_fail(CLI_EXIT_LOCAL, "%s",
                        error.text[0] != '\0' ? error.text : base_status_text(status));
    }
    free(trained.bytes);
    gather_done(&gather);
    return code;
}
