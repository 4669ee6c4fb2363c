// Joining and splitting of strings, evaluated on known contents: StringConcat and StringSplit.
//
// Handlers are called by lowering, node by node, on the planning thread. Lengths and counts come
// from the model: each is checked before memory is taken for it.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <string.h>

// Most fields of one StringSplit, empty ones included, and bytes of one StringConcat's result.
#define STRING_FIELDS_MAX ((int64_t)1 << 22)
#define STRING_BYTES_MAX  ((size_t)1 << 28)
#define DELIMITER_MAX     1024 // bytes: each place of a string is compared with it

// --- StringConcat

// Input i, strings, spread to the shape of the result.
static enum base_status spread(struct eng_lower *lower, uint32_t tensor,
                               const struct eng_desc *desc, struct eng_array *out)
{
    BASE_TRY(eng_lower_expand(lower, tensor, desc, &tensor));
    return eng_lower_content(lower, tensor, out);
}

static enum base_status join(struct eng_lower *lower, const struct eng_string *left,
                             const struct eng_string *right, struct eng_string *out)
{
    char *text = eng_lower_alloc(lower, left->size + right->size + 1);
    if (text == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (left->size > 0) {
        memcpy(text, left->at, left->size);
    }
    if (right->size > 0) {
        memcpy(text + left->size, right->at, right->size);
    }
    *out = (struct eng_string){.at = text, .size = left->size + right->size};
    return BASE_OK;
}

static enum base_status lower_string_concat(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t tensors[2] = {ENG_NONE, ENG_NONE};
    struct eng_array parts[2];
    struct eng_desc desc;
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(eng_lower_input(lower, node, i, &tensors[i]));
        enum eng_dtype dtype = eng_lower_desc(lower, tensors[i])->dtype;
        if (dtype != ENG_STRING) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is %s, not string", i,
                                  eng_dtype_name(dtype));
        }
    }
    BASE_TRY(eng_lower_broadcast(lower, node, tensors, 2, &desc));
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(spread(lower, tensors[i], &desc, &parts[i]));
        base_assert(eng_desc_count(&parts[i].desc) == eng_desc_count(&desc));
    }
    int64_t count = eng_desc_count(&desc);
    size_t left = STRING_BYTES_MAX;
    struct eng_string *joined = eng_lower_alloc(lower, ((size_t)count + 1) * sizeof(*joined));
    if (joined == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        const struct eng_string *a = (const struct eng_string *)parts[0].data + i;
        const struct eng_string *b = (const struct eng_string *)parts[1].data + i;
        if (a->size > left || b->size > left - a->size) {
            return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                                  "its result has more than %zu bytes", STRING_BYTES_MAX);
        }
        left -= a->size + b->size;
        BASE_TRY(join(lower, a, b, &joined[i]));
    }
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_const(lower, &desc, joined, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- StringSplit

struct splitter {
    struct eng_string delimiter; // empty: runs of white space
    int64_t most;                // splits of one string, -1: all
};

static bool is_space(char letter)
{
    return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

// Takes the next field off *rest; false when there is none. `taken` fields were taken before. Where
// no more splits are allowed the rest is the last field.
static bool next_field(const struct splitter *splitter, struct eng_string *rest, int64_t taken,
                       struct eng_string *out)
{
    bool spaces = splitter->delimiter.size == 0;
    bool last = splitter->most >= 0 && taken >= splitter->most;
    while (spaces && rest->size > 0 && is_space(rest->at[0])) {
        rest->at++;
        rest->size--;
    }
    if (rest->at == NULL || (spaces && rest->size == 0)) {
        return false;
    }
    uint64_t end = 0;
    uint64_t skipped = 0;
    while (!last && end < rest->size && skipped == 0) {
        if (spaces ? is_space(rest->at[end])
                   : splitter->delimiter.size <= rest->size - end &&
                         memcmp(rest->at + end, splitter->delimiter.at, splitter->delimiter.size) ==
                             0) {
            skipped = spaces ? 1 : splitter->delimiter.size;
        } else {
            end++;
        }
    }
    end = last ? rest->size : end;
    base_assert(end + skipped <= rest->size);
    *out = (struct eng_string){.at = rest->at, .size = end};
    // Without a delimiter behind it the field was the last one.
    *rest = skipped == 0
                ? (struct eng_string){.at = NULL}
                : (struct eng_string){rest->at + end + skipped, rest->size - end - skipped};
    return true;
}

// The fields of one string; `out` NULL only counts them.
static int64_t split_one(const struct splitter *splitter, const struct eng_string *text,
                         struct eng_string *out)
{
    struct eng_string rest = {.at = text->at != NULL ? text->at : "", .size = text->size};
    struct eng_string field;
    int64_t count = 0;
    while (next_field(splitter, &rest, count, &field)) {
        if (out != NULL) {
            out[count] = field;
        }
        count++;
    }
    return count;
}

// How many fields each string has; the most of them.
static int64_t split_counts(const struct splitter *splitter, const struct eng_array *input,
                            int64_t *counts)
{
    int64_t rows = eng_desc_count(&input->desc);
    int64_t most = 0;
    for (int64_t i = 0; i < rows; i++) {
        counts[i] = split_one(splitter, (const struct eng_string *)input->data + i, NULL);
        most = counts[i] > most ? counts[i] : most;
    }
    return most;
}

static enum base_status lower_string_split(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_array x;
    const struct splitter s = {.delimiter = eng_node_string(node, "delimiter", ""),
                               .most = eng_node_int(node, "maxsplit", -1)};
    BASE_TRY(eng_input_content(lower, node, 0, &x));
    struct eng_desc desc = x.desc;
    if (s.delimiter.size > DELIMITER_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "a delimiter of %llu bytes",
                              (unsigned long long)s.delimiter.size);
    }
    if (desc.dtype != ENG_STRING || desc.rank >= ENG_RANK_MAX) {
        char text[72];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input is %s, not strings of rank 0 to %d",
                              eng_desc_text(&desc, text, sizeof(text)), ENG_RANK_MAX - 1);
    }
    int64_t rows = eng_desc_count(&desc);
    int64_t *counts = eng_lower_alloc(lower, ((size_t)rows + 1) * sizeof(*counts));
    if (counts == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t most = split_counts(&s, &x, counts);
    if (rows > 0 && most > STRING_FIELDS_MAX / rows) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "%lld strings of up to %lld fields",
                              (long long)rows, (long long)most);
    }
    struct eng_string *fields =
        eng_lower_alloc(lower, ((size_t)(rows * most) + 1) * sizeof(*fields));
    if (fields == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t found = split_one(&s, (const struct eng_string *)x.data + i, fields + i * most);
        base_assert(found == counts[i]);
        for (int64_t k = counts[i]; k < most; k++) {
            fields[i * most + k] = (struct eng_string){.at = "", .size = 0};
        }
    }
    struct eng_desc numbers = desc;
    numbers.dtype = ENG_I64;
    desc.dims[desc.rank++] = most;
    uint32_t out[2] = {ENG_NONE, ENG_NONE};
    BASE_TRY(eng_lower_const(lower, &desc, fields, &out[0]));
    BASE_TRY(eng_lower_const(lower, &numbers, counts, &out[1]));
    BASE_TRY(eng_lower_output(lower, node, 0, out[0]));
    return eng_lower_output(lower, node, 1, out[1]);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("StringConcat", 20, ENG_OPSET_MAX, CONTROL, lower_string_concat),
    ENG_OP_ROW("StringSplit", 20, ENG_OPSET_MAX, CONTROL, lower_string_split),
};
const struct eng_op_table eng_ops_strings = ENG_OP_TABLE(rows);
