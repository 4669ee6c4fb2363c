// The engine's side of the differential test: models in, results out, in one process.
//
// diff_engine.py starts it and writes frames to its standard input: a model, the configurations to
// run it in, and the inputs of each run. For every configuration and run it answers with the
// outputs, or with the status and text of the error. Results whose bytes are those of the first
// configuration are answered as SAME. Single-threaded but for the engine's own pool.
//
// A frame is its length in four bytes and then its bytes; the fields are in the order of the
// functions below, all numbers little-endian. A frame that does not parse ends the process.
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cursor.h"
#include "base/str.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAME_BYTES_MAX  (256u << 20)
#define RUN_DEADLINE_US  10000000u
#define PLAN_BYTES_MAX   ((size_t)512 << 20)
#define CONFIG_BYTES_MAX 128u
#define ANSWER_SAME      100 // the outputs of the first configuration, byte for byte
#define ANSWER_UNSTEADY  101 // a second run of the same session gave other bytes

struct config {
    struct eng_session_options options;
    bool fresh; // a new session for every run
    bool twice; // every run is done twice and must give the same bytes
    bool place; // inputs are written where the session has them
    char isa[CONFIG_BYTES_MAX];
};

static void put(struct base_buffer *to, const void *bytes, size_t size)
{
    base_check(size == 0 || base_buffer_add(to, bytes, size) == BASE_OK);
}

static void put_u32(struct base_buffer *to, uint32_t value)
{
    put(to, &value, sizeof value);
}

static void put_u64(struct base_buffer *to, uint64_t value)
{
    put(to, &value, sizeof value);
}

static void put_status(struct base_buffer *to, int32_t status, const char *text)
{
    put_u32(to, (uint32_t)status);
    put_u32(to, (uint32_t)strlen(text));
    put(to, text, strlen(text));
}

// Fills `bytes`; false at the end of the input.
static bool read_all(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = read(STDIN_FILENO, at, size);
        if (got <= 0) {
            return false;
        }
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static void write_all(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t put_bytes = write(STDOUT_FILENO, at, size);
        if (put_bytes <= 0) {
            exit(1);
        }
        at += put_bytes;
        size -= (size_t)put_bytes;
    }
}

// ---- configurations -----------------------------------------------------------------------------

static void read_word(struct config *config, struct base_str word)
{
    struct eng_session_options *options = &config->options;
    if (base_str_starts(word, BASE_STR("isa="))) {
        base_check(word.size - 4 < sizeof config->isa);
        memcpy(config->isa, word.data + 4, word.size - 4);
        options->isa = config->isa;
    } else if (base_str_starts(word, BASE_STR("threads="))) {
        uint64_t threads = 0;
        base_check(base_str_u64((struct base_str){word.data + 8, word.size - 8}, &threads) ==
                   BASE_OK);
        options->threads = (uint32_t)threads;
    } else if (base_str_equal(word, BASE_STR("low"))) {
        options->precision = ENG_PRECISION_LOW;
    } else if (base_str_equal(word, BASE_STR("no_fuse"))) {
        options->no_fuse = true;
    } else if (base_str_equal(word, BASE_STR("no_merge"))) {
        options->no_merge = true;
    } else if (base_str_equal(word, BASE_STR("search"))) {
        options->no_search = false;
    } else if (base_str_equal(word, BASE_STR("keep"))) {
        options->keep_values = true;
    } else if (base_str_equal(word, BASE_STR("fresh"))) {
        config->fresh = true;
    } else if (base_str_equal(word, BASE_STR("place"))) {
        config->place = true;
    } else if (base_str_equal(word, BASE_STR("twice"))) {
        config->twice = true;
    } else {
        fprintf(stderr, "unknown word %.*s\n", (int)word.size, word.data);
        exit(64);
    }
}

// A length and words parted by blanks.
static void read_config(struct base_reader *reader, struct config *out_config)
{
    struct config *config = out_config;
    memset(config, 0, sizeof *config);
    config->options = (struct eng_session_options){
        .threads = 1, .no_search = true, .memory_bytes_max = PLAN_BYTES_MAX};
    uint32_t size = base_reader_u32(reader);
    const char *text = (const char *)base_reader_bytes(reader, size);
    for (uint32_t at = 0; text && at < size;) {
        uint32_t length = 0;
        while (at + length < size && text[at + length] != ' ') {
            length++;
        }
        if (length > 0) {
            read_word(config, (struct base_str){text + at, length});
        }
        at += length + 1;
    }
}

// ---- inputs -------------------------------------------------------------------------------------

static void free_arrays(struct eng_array *arrays, uint32_t count)
{
    for (uint32_t i = 0; arrays && i < count; i++) {
        free(arrays[i].data);
    }
    free(arrays);
}

// Texts: each its length and its bytes, which stay in the frame.
static void read_texts(struct base_reader *reader, struct eng_string *texts, uint64_t bytes)
{
    struct base_reader inner;
    base_reader_init(&inner, base_reader_bytes(reader, bytes), bytes);
    for (size_t i = 0; base_reader_left(&inner) > 0; i++) {
        texts[i].size = base_reader_u32(&inner);
        texts[i].at = (const char *)base_reader_bytes(&inner, texts[i].size);
        base_check(inner.status == BASE_OK);
    }
}

// Element type, rank, dimensions, size in bytes, bytes.
static void read_array(struct base_reader *reader, struct eng_array *array)
{
    array->desc.dtype = (enum eng_dtype)base_reader_u32(reader);
    array->desc.rank = base_reader_u32(reader);
    base_check(array->desc.rank <= ENG_RANK_MAX);
    for (uint32_t i = 0; i < array->desc.rank; i++) {
        array->desc.dims[i] = (int64_t)base_reader_u64(reader);
    }
    uint64_t size = base_reader_u64(reader);
    base_check(reader->status == BASE_OK && size <= base_reader_left(reader));
    // Exactly as many bytes as there are, so that reading past them is seen.
    array->data = malloc(eng_desc_bytes(&array->desc) + (eng_desc_bytes(&array->desc) == 0));
    base_check(array->data != NULL);
    if (array->desc.dtype == ENG_STRING) {
        read_texts(reader, array->data, size);
    } else {
        base_check(size == eng_desc_bytes(&array->desc));
        base_reader_copy(reader, array->data, size);
    }
}

// Resized to the shape and written in place.
static enum base_status place_input(struct eng_session *session, size_t index,
                                    const struct eng_array *from, struct base_error *error)
{
    struct eng_array to;
    enum base_status status = eng_session_resize(session, index, &from->desc, error);
    if (status == BASE_OK) {
        status = eng_session_input(session, index, &to, error);
    }
    if (status == BASE_OK) {
        base_check(eng_desc_equal(&to.desc, &from->desc));
        memcpy(to.data, from->data, eng_desc_bytes(&from->desc));
    }
    return status;
}

// Name, whether it is a sequence, number of items, items.
static enum base_status set_input(struct base_reader *reader, const struct eng_model *model,
                                  struct eng_session *session, bool place, struct base_error *error)
{
    char name[ENG_NAME_BYTES_MAX + 1] = {0};
    uint32_t size = base_reader_u32(reader);
    base_check(size < sizeof name);
    base_reader_copy(reader, name, size);
    bool sequence = base_reader_u32(reader) != 0;
    uint32_t count = base_reader_u32(reader);
    base_check(reader->status == BASE_OK && (sequence || count == 1));
    struct eng_array *arrays = calloc(count + 1u, sizeof *arrays);
    base_check(arrays != NULL);
    for (uint32_t i = 0; i < count; i++) {
        read_array(reader, &arrays[i]);
    }
    int64_t index = eng_model_input_index(model, name);
    enum base_status status = BASE_OK;
    if (index >= 0 && session) { // an initializer of this name may have replaced the input
        if (sequence) {
            status = eng_session_set_sequence(session, (size_t)index, arrays, count, error);
        } else if (place && arrays[0].desc.dtype != ENG_STRING) {
            status = place_input(session, (size_t)index, &arrays[0], error);
        } else {
            status = eng_session_set_input(session, (size_t)index, &arrays[0], error);
        }
    }
    free_arrays(arrays, count);
    return status;
}

// ---- results ------------------------------------------------------------------------------------

static void put_array(struct base_buffer *to, const struct eng_array *array)
{
    put_u32(to, (uint32_t)array->desc.dtype);
    put_u32(to, array->desc.rank);
    for (uint32_t i = 0; i < array->desc.rank; i++) {
        put_u64(to, (uint64_t)array->desc.dims[i]);
    }
    if (array->desc.dtype != ENG_STRING) {
        put_u64(to, eng_desc_bytes(&array->desc));
        put(to, array->data, eng_desc_bytes(&array->desc));
        return;
    }
    const struct eng_string *texts = array->data;
    int64_t count = eng_desc_count(&array->desc);
    uint64_t bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        bytes += 4 + texts[i].size;
    }
    put_u64(to, bytes);
    for (int64_t i = 0; i < count; i++) {
        put_u32(to, (uint32_t)texts[i].size);
        put(to, texts[i].at, texts[i].size);
    }
}

// An output read as a value of the graph is the output.
static void check_kept(const struct eng_model *model, struct eng_session *session, size_t index)
{
    struct eng_array kept, out;
    if (eng_session_value(session, eng_model_output(model, index)->name, &kept, NULL) == BASE_OK &&
        eng_session_output(session, index, &out, NULL) == BASE_OK) {
        base_check(eng_desc_equal(&kept.desc, &out.desc));
        base_check(out.desc.dtype == ENG_STRING || eng_desc_count(&out.desc) == 0 ||
                   memcmp(kept.data, out.data, eng_desc_bytes(&out.desc)) == 0);
    }
}

static enum base_status put_outputs(struct base_buffer *to, const struct eng_model *model,
                                    struct eng_session *session, bool keep,
                                    struct base_error *error)
{
    put_u32(to, (uint32_t)eng_model_output_count(model));
    for (size_t i = 0; i < eng_model_output_count(model); i++) {
        size_t items = eng_session_output_items(session, i);
        put_u32(to, (uint32_t)items);
        for (size_t k = 0; k < items; k++) {
            struct eng_array array;
            enum base_status status = eng_session_output_item(session, i, k, &array, error);
            if (status != BASE_OK) {
                return status;
            }
            put_array(to, &array);
        }
        if (keep && items == 1) {
            check_kept(model, session, i);
        }
    }
    return BASE_OK;
}

static enum base_status run_once(const struct eng_model *model, struct eng_session *session,
                                 bool keep, struct base_buffer *out_bytes, struct base_error *error)
{
    struct eng_run_options options = {.deadline_us = base_clock_mono_us() + RUN_DEADLINE_US};
    enum base_status status = eng_session_run(session, &options, error);
    if (status == BASE_OK) {
        status = put_outputs(out_bytes, model, session, keep, error);
    }
    return status;
}

// ---- frames -------------------------------------------------------------------------------------

struct results {
    struct base_buffer bytes; // outputs of one run in the first configuration
    bool filled;
};

// One run: its status, a text, and when it is OK its outputs.
static void answer_run(struct base_buffer *answer, const struct config *config,
                       const struct eng_model *model, struct eng_session *session,
                       struct results *first, enum base_status status, struct base_error *error)
{
    struct base_buffer once, again;
    base_buffer_init(&once, base_alloc_heap(), 0);
    base_buffer_init(&again, base_alloc_heap(), 0);
    if (status == BASE_OK) {
        status = run_once(model, session, config->options.keep_values, &once, error);
    }
    int32_t code = (int32_t)status;
    if (status == BASE_OK && config->twice) {
        status = run_once(model, session, config->options.keep_values, &again, error);
        if (status != BASE_OK || once.size != again.size ||
            memcmp(once.data, again.data, once.size) != 0) {
            code = ANSWER_UNSTEADY;
        }
    }
    if (code == 0 && first->filled && first->bytes.size == once.size &&
        memcmp(first->bytes.data, once.data, once.size) == 0) {
        code = ANSWER_SAME;
    }
    put_status(answer, code, code < 0 ? error->text : "");
    if (code == 0) {
        put(answer, once.data, once.size);
    }
    if (code == 0 && !first->filled) {
        put(&first->bytes, once.data, once.size);
        first->filled = true;
    }
    base_buffer_done(&once);
    base_buffer_done(&again);
}

// Number of runs, for each the number of inputs and the inputs.
static void answer_config(struct base_buffer *answer, struct base_reader runs,
                          struct config *config, struct eng_model *model, struct results *first)
{
    struct eng_session *session = NULL;
    uint32_t run_count = base_reader_u32(&runs);
    for (uint32_t r = 0; r < run_count; r++) {
        struct base_error error = {0};
        enum base_status status = BASE_OK;
        if (config->fresh) {
            eng_session_free(session);
            session = NULL;
        }
        if (!session) {
            status = eng_session_new(model, &config->options, &session, &error);
        }
        uint32_t input_count = base_reader_u32(&runs);
        for (uint32_t i = 0; i < input_count; i++) {
            struct base_error own = {0};
            enum base_status one = set_input(&runs, model, session, config->place, &own);
            if (status == BASE_OK && one != BASE_OK) {
                status = one;
                error = own;
            }
        }
        base_check(runs.status == BASE_OK);
        answer_run(answer, config, model, session, &first[r], status, &error);
    }
    eng_session_free(session);
}

// Model, number of configurations, configurations, runs.
static void answer_frame(struct base_buffer *answer, const uint8_t *frame, size_t size)
{
    struct base_reader reader;
    struct base_error error = {0};
    struct eng_model *model = NULL;
    base_reader_init(&reader, frame, size);
    uint32_t model_size = base_reader_u32(&reader);
    const uint8_t *bytes = base_reader_bytes(&reader, model_size);
    uint32_t config_count = base_reader_u32(&reader);
    struct config *configs = calloc(config_count + 1u, sizeof *configs);
    base_check(configs != NULL && reader.status == BASE_OK);
    for (uint32_t c = 0; c < config_count; c++) {
        read_config(&reader, &configs[c]);
    }
    base_check(reader.status == BASE_OK);
    enum base_status status = eng_model_load_memory(bytes, model_size, NULL, &model, &error);
    put_status(answer, (int32_t)status, error.text);
    if (status == BASE_OK) {
        struct base_reader peek = reader;
        uint32_t run_count = base_reader_u32(&peek);
        struct results *first = calloc(run_count + 1u, sizeof *first);
        base_check(first != NULL);
        for (uint32_t r = 0; r < run_count; r++) {
            base_buffer_init(&first[r].bytes, base_alloc_heap(), 0);
        }
        for (uint32_t c = 0; c < config_count; c++) {
            answer_config(answer, reader, &configs[c], model, first);
        }
        for (uint32_t r = 0; r < run_count; r++) {
            base_buffer_done(&first[r].bytes);
        }
        free(first);
    }
    eng_model_unref(model);
    free(configs);
}

int main(void)
{
    uint32_t size;
    while (read_all(&size, sizeof size)) {
        base_check(size <= FRAME_BYTES_MAX);
        uint8_t *frame = malloc(size + 1u);
        base_check(frame != NULL);
        if (!read_all(frame, size)) {
            free(frame);
            break;
        }
        struct base_buffer answer;
        base_buffer_init(&answer, base_alloc_heap(), 0);
        answer_frame(&answer, frame, size);
        uint32_t length = (uint32_t)answer.size;
        write_all(&length, sizeof length);
        write_all(answer.data, answer.size);
        base_buffer_done(&answer);
        free(frame);
    }
    return 0;
}
