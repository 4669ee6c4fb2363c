// What training came to, as bytes, and back: for whoever stops in the middle and goes on later.
// Called by users of train.h on the trainer's thread. Bytes that are read may be anybody's: they
// are looked through once before anything is changed.
//
//   state  := "WTS" u8 version, u8 optimizer, u64 origin, u64 steps, u32 bits of the learning rate,
//             varint count, count x weight
//   weight := varint index among the parameters, varint elements, values [, first [, second]]
//
// `origin` stands for the parameters that the model was loaded with, so the values that are not
// here, those of frozen parameters, are the same ones.
#include "train/train_step.h"

#include "base/check.h"
#include "base/cursor.h"

#include <math.h>
#include <string.h>

#define VERSION      1u
#define HEAD_BYTES   (3u + 1 + 1 + 8 + 8 + 4)
#define VARINT_BYTES 10u

// The velocity of SGD is needed only where momentum makes something of it.
static bool keeps_first(const struct eng_trainer *trainer, const struct eng_weight *weight)
{
    return weight->is_trained &&
           (trainer->options.optimizer == ENG_OPTIMIZER_ADAM || trainer->options.momentum > 0);
}

static bool is_kept(const struct eng_weight *weight)
{
    return weight->is_trained || weight->is_statistic;
}

static uint32_t kept_count(const struct eng_trainer *trainer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < trainer->parameter_count; i++) {
        count += is_kept(&trainer->weights[i]);
    }
    return count;
}

size_t eng_trainer_state_bytes(const struct eng_trainer *trainer)
{
    size_t bytes = HEAD_BYTES + VARINT_BYTES;
    for (uint32_t i = 0; i < trainer->parameter_count; i++) {
        const struct eng_weight *weight = &trainer->weights[i];
        if (is_kept(weight)) {
            size_t copies = 1u + keeps_first(trainer, weight) + (weight->second != NULL);
            bytes += 2 * VARINT_BYTES + copies * eng_desc_bytes(&weight->desc);
        }
    }
    return bytes;
}

static uint32_t rate_bits(const struct eng_trainer *trainer)
{
    uint32_t bits;
    memcpy(&bits, &trainer->options.learning_rate, sizeof(bits));
    return bits;
}

enum base_status eng_trainer_state_write(const struct eng_trainer *trainer, void *bytes,
                                         size_t size, struct base_error *error)
{
    struct base_writer writer;
    if (size < eng_trainer_state_bytes(trainer)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "the state needs %zu bytes, not %zu",
                              eng_trainer_state_bytes(trainer), size);
    }
    memset(bytes, 0, size); // the end is padding: its length hangs on the choice alone
    base_writer_init(&writer, bytes, size);
    base_writer_bytes(&writer, "WTS", 3);
    base_writer_u8(&writer, VERSION);
    base_writer_u8(&writer, (uint8_t)trainer->options.optimizer);
    base_writer_u64(&writer, trainer->origin);
    base_writer_u64(&writer, trainer->steps);
    base_writer_u32(&writer, rate_bits(trainer));
    base_writer_varint(&writer, kept_count(trainer));
    for (uint32_t i = 0; i < trainer->parameter_count; i++) {
        const struct eng_weight *weight = &trainer->weights[i];
        size_t weight_bytes = eng_desc_bytes(&weight->desc);
        if (!is_kept(weight)) {
            continue;
        }
        base_writer_varint(&writer, i);
        base_writer_varint(&writer, (uint64_t)eng_desc_count(&weight->desc));
        base_writer_bytes(&writer, weight->data, weight_bytes);
        if (keeps_first(trainer, weight)) {
            base_writer_bytes(&writer, weight->first, weight_bytes);
        }
        if (weight->second != NULL) {
            base_writer_bytes(&writer, weight->second, weight_bytes);
        }
    }
    base_assert(writer.status == BASE_OK);
    return writer.status;
}

// --- and back ---------------------------------------------------------------------------------

static enum base_status head_read(const struct eng_trainer *trainer, struct base_reader *reader,
                                  uint64_t *out_steps, uint32_t *out_rate, struct base_error *error)
{
    const uint8_t *magic = base_reader_bytes(reader, 4);
    uint8_t optimizer = base_reader_u8(reader);
    uint64_t origin = base_reader_u64(reader);
    *out_steps = base_reader_u64(reader);
    *out_rate = base_reader_u32(reader);
    if (magic == NULL || memcmp(magic, "WTS", 3) != 0 || magic[3] != VERSION) {
        return base_error_set(error, BASE_ERR_INVALID, "this is no state of a trainer");
    }
    if (origin != trainer->origin) {
        return base_error_set(error, BASE_ERR_INVALID, "the state is of another model");
    }
    if (optimizer != trainer->options.optimizer) {
        return base_error_set(error, BASE_ERR_INVALID, "the state is of another optimizer");
    }
    if (base_reader_varint(reader) != kept_count(trainer)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "in the state, other parameters are trained");
    }
    return BASE_OK;
}

// Whether all of them are finite; others would spoil what is trained from here on.
static bool values_read(struct base_reader *reader, float *values, size_t bytes, bool is_taken)
{
    const uint8_t *from = base_reader_bytes(reader, bytes);
    bool are_finite = true;
    for (size_t at = 0; from != NULL && !is_taken && at < bytes; at += sizeof(float)) {
        float value;
        memcpy(&value, from + at, sizeof(value));
        are_finite = are_finite && isfinite(value);
    }
    if (is_taken && from != NULL && bytes > 0) {
        memcpy(values, from, bytes);
    }
    return are_finite;
}

static enum base_status weights_read(struct eng_trainer *trainer, struct base_reader *reader,
                                     bool is_taken, struct base_error *error)
{
    for (uint32_t i = 0; i < trainer->parameter_count; i++) {
        const struct eng_weight *weight = &trainer->weights[i];
        size_t bytes = eng_desc_bytes(&weight->desc);
        if (!is_kept(weight)) {
            continue;
        }
        base_assert(weight->data != NULL);
        uint64_t index = base_reader_varint(reader);
        uint64_t count = base_reader_varint(reader);
        if (reader->status == BASE_OK &&
            (index != i || count != (uint64_t)eng_desc_count(&weight->desc))) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "in the state, other parameters are trained than '%.80s'",
                                  weight->name);
        }
        bool are_finite = values_read(reader, weight->data, bytes, is_taken);
        if (keeps_first(trainer, weight)) {
            are_finite = values_read(reader, weight->first, bytes, is_taken) && are_finite;
        }
        if (weight->second != NULL) {
            are_finite = values_read(reader, weight->second, bytes, is_taken) && are_finite;
        }
        if (!are_finite) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "in the state, a value of '%.80s' is no finite number",
                                  weight->name);
        }
    }
    return reader->status == BASE_OK
               ? BASE_OK
               : base_error_set(error, reader->status, "the state is cut short or damaged");
}

enum base_status eng_trainer_state_read(struct eng_trainer *trainer, const void *bytes, size_t size,
                                        struct base_error *error)
{
    struct base_reader reader;
    uint64_t steps = 0;
    uint32_t bits = 0;
    float rate;
    base_assert(trainer->parameter_count > 0);
    for (int pass = 0; pass < 2; pass++) {
        base_reader_init(&reader, bytes, size);
        BASE_TRY(head_read(trainer, &reader, &steps, &bits, error));
        memcpy(&rate, &bits, sizeof(rate));
        if (!(rate > 0) || !isfinite(rate) || size != eng_trainer_state_bytes(trainer)) {
            return base_error_set(error, BASE_ERR_INVALID, "the state is cut short or damaged");
        }
        BASE_TRY(weights_read(trainer, &reader, pass == 1, error));
    }
    trainer->steps = steps;
    trainer->options.learning_rate = rate;
    return BASE_OK;
}
