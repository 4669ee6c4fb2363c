// Operators on strings and n-grams, evaluated on known contents: StringNormalizer (case, stop
// words) and TfIdfVectorizer.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

// --- case

// Simple case pairs of the scripts that have them in neat blocks: Latin-1, Latin Extended-A,
// Greek, Cyrillic. Others, and letters without a partner of one code point, stay.
static uint32_t to_lower(uint32_t code)
{
    if ((code >= 'A' && code <= 'Z') || (code >= 0xC0 && code <= 0xDE && code != 0xD7) ||
        (code >= 0x391 && code <= 0x3A9 && code != 0x3A2) || (code >= 0x410 && code <= 0x42F)) {
        return code + 32;
    }
    if (code >= 0x400 && code <= 0x40F) {
        return code + 80;
    }
    bool even_first = (code >= 0x100 && code <= 0x137 && code != 0x130 && code != 0x131) ||
                      (code >= 0x14A && code <= 0x177) || (code >= 0x460 && code <= 0x481);
    bool odd_first = (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17E);
    if ((even_first && code % 2 == 0) || (odd_first && code % 2 == 1)) {
        return code + 1;
    }
    return code;
}

static uint32_t to_upper(uint32_t code)
{
    if ((code >= 'a' && code <= 'z') || (code >= 0xE0 && code <= 0xFE && code != 0xF7) ||
        (code >= 0x3B1 && code <= 0x3C9 && code != 0x3C2) || (code >= 0x430 && code <= 0x44F)) {
        return code - 32;
    }
    if (code >= 0x450 && code <= 0x45F) {
        return code - 80;
    }
    return code > 0x100 && to_lower(code - 1) == code ? code - 1 : code;
}

// Code point of a well-formed two-byte sequence at `at`, else 0.
static uint32_t two_bytes(const struct eng_string *text, uint64_t at)
{
    if (at + 1 >= text->size) {
        return 0;
    }
    uint8_t a = (uint8_t)text->at[at];
    uint8_t b = (uint8_t)text->at[at + 1];
    if (a < 0xC2 || a > 0xDF || b < 0x80 || b > 0xBF) {
        return 0;
    }
    return ((a & 0x1FU) << 6) | (b & 0x3FU);
}

// A copy of `text` in lower or upper case. Pairs have the same length in UTF-8; longer sequences
// and bytes that are no UTF-8 are copied.
static enum base_status change_case(struct eng_lower *lower, bool upper, struct eng_string *text)
{
    char *copy = eng_lower_alloc(lower, text->size + 1);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint64_t i = 0; i < text->size; i++) {
        uint8_t byte = (uint8_t)text->at[i];
        uint32_t wide = two_bytes(text, i);
        if (byte < 0x80) {
            copy[i] = (char)(upper ? to_upper(byte) : to_lower(byte));
        } else if (wide != 0) {
            uint32_t other = upper ? to_upper(wide) : to_lower(wide);
            base_assert(other >= 0x80 && other < 0x800); // two bytes as well
            copy[i] = (char)(0xC0U | (other >> 6));
            copy[++i] = (char)(0x80U | (other & 0x3FU));
        } else {
            copy[i] = (char)byte;
        }
    }
    copy[text->size] = '\0';
    text->at = copy;
    return BASE_OK;
}

static bool same_text(const struct eng_string *left, const struct eng_string *right)
{
    return left->size == right->size &&
           (left->size == 0 || memcmp(left->at, right->at, left->size) == 0);
}

// --- StringNormalizer

struct normalizer {
    const struct eng_string *stop;
    struct eng_string *lower; // stop words in lower case, when case does not matter
    uint32_t stop_count;
    bool changes, upper;
};

static enum base_status normalizer_init(struct eng_lower *lower, const struct eng_node *node,
                                        struct normalizer *normalizer)
{
    base_assert(normalizer->stop_count == 0 && normalizer->lower == NULL);
    struct eng_string action = eng_node_string(node, "case_change_action", "NONE");
    normalizer->upper = eng_string_is(action, "UPPER");
    normalizer->changes = normalizer->upper || eng_string_is(action, "LOWER");
    if (!normalizer->changes && !eng_string_is(action, "NONE")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "case_change_action is not NONE, LOWER or UPPER");
    }
    const struct eng_attr *stop = eng_node_attr(node, "stopwords");
    if (stop == NULL || stop->kind != ENG_ATTR_STRINGS) {
        return BASE_OK;
    }
    normalizer->stop = stop->u.strings;
    normalizer->stop_count = stop->count;
    if (eng_node_int(node, "is_case_sensitive", 0) != 0) {
        return BASE_OK;
    }
    normalizer->lower =
        eng_lower_alloc(lower, (normalizer->stop_count + (size_t)1) * sizeof(*normalizer->lower));
    if (normalizer->lower == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < normalizer->stop_count; i++) {
        normalizer->lower[i] = normalizer->stop[i];
        BASE_TRY(change_case(lower, false, &normalizer->lower[i]));
    }
    return BASE_OK;
}

static enum base_status is_stop_word(struct eng_lower *lower, const struct normalizer *normalizer,
                                     struct eng_string text, bool *out)
{
    const struct eng_string *words = normalizer->stop;
    *out = false;
    if (normalizer->lower != NULL) {
        words = normalizer->lower;
        BASE_TRY(change_case(lower, false, &text));
    }
    for (uint32_t i = 0; i < normalizer->stop_count && !*out; i++) {
        *out = same_text(&words[i], &text);
    }
    return BASE_OK;
}

static enum base_status lower_normalizer(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_array x;
    struct normalizer n = {0};
    BASE_TRY(eng_input_content(lower, node, 0, &x));
    BASE_TRY(normalizer_init(lower, node, &n));
    struct eng_desc desc = x.desc;
    if (desc.dtype != ENG_STRING || desc.rank < 1 || desc.rank > 2 ||
        (desc.rank == 2 && desc.dims[0] != 1)) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input is %s, not [c] or [1,c] strings",
                              eng_desc_text(&desc, text, sizeof(text)));
    }
    int64_t count = eng_desc_count(&desc);
    struct eng_string *kept = eng_lower_alloc(lower, ((size_t)count + 1) * sizeof(*kept));
    if (kept == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t kept_count = 0;
    for (int64_t i = 0; i < count; i++) {
        struct eng_string text = ((const struct eng_string *)x.data)[i];
        bool stop = false;
        BASE_TRY(is_stop_word(lower, &n, text, &stop));
        if (stop) {
            continue;
        }
        if (n.changes) {
            BASE_TRY(change_case(lower, n.upper, &text));
        }
        kept[kept_count++] = text;
    }
    if (kept_count == 0) {
        // Nothing left is one empty string.
        kept[kept_count++] = (struct eng_string){.at = "", .size = 0};
    }
    base_assert(kept_count >= 1 && kept_count <= count + 1);
    desc.dims[desc.rank - 1] = kept_count;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_const(lower, &desc, kept, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- TfIdfVectorizer

// The pool of n-grams: items of either kind, grams in an open-addressed table.
struct grams {
    const struct eng_string *texts; // one of the two is set
    const int64_t *numbers;
    uint32_t item_count;
    uint32_t *table; // gram number + 1, 0: free
    uint32_t table_mask;
    uint32_t *start;  // gram -> first item
    uint32_t *length; // gram -> items
    uint32_t count;
};

// Items of a document, seen through a stride.
struct gram_view {
    const struct eng_array *x;
    int64_t first, stride;
};

static uint64_t hash_number(uint64_t seed, int64_t number)
{
    return base_hash64_seed(&number, sizeof(number), seed);
}

static int64_t view_number(const struct gram_view *view, uint32_t index)
{
    int64_t at = view->first + (int64_t)index * view->stride;
    return view->x->desc.dtype == ENG_I32 ? ((const int32_t *)view->x->data)[at]
                                          : ((const int64_t *)view->x->data)[at];
}

static const struct eng_string *view_text(const struct gram_view *view, uint32_t index)
{
    return &((const struct eng_string *)view->x->data)[view->first + (int64_t)index * view->stride];
}

static uint64_t hash_text(uint64_t seed, const struct eng_string *text)
{
    return base_hash64_seed(text->size == 0 ? "" : text->at, text->size, seed);
}

static void insert_gram(struct grams *grams, uint32_t gram)
{
    base_assert(gram < grams->table_mask);
    base_assert(grams->start[gram] + grams->length[gram] <= grams->item_count);
    uint64_t hash = grams->length[gram];
    for (uint32_t i = 0; i < grams->length[gram]; i++) {
        uint32_t at = grams->start[gram] + i;
        hash = grams->texts != NULL ? hash_text(hash, &grams->texts[at])
                                    : hash_number(hash, grams->numbers[at]);
    }
    uint32_t slot = (uint32_t)hash & grams->table_mask;
    while (grams->table[slot] != 0) {
        slot = (slot + 1) & grams->table_mask;
    }
    grams->table[slot] = gram + 1;
}

static bool gram_matches(const struct grams *grams, uint32_t gram, const struct gram_view *view,
                         uint32_t length)
{
    bool same = grams->length[gram] == length;
    for (uint32_t i = 0; same && i < length; i++) {
        uint32_t at = grams->start[gram] + i;
        same = grams->texts != NULL ? same_text(&grams->texts[at], view_text(view, i))
                                    : grams->numbers[at] == view_number(view, i);
    }
    return same;
}

// Number of the gram the view shows, or UINT32_MAX.
static uint32_t find_gram(const struct grams *grams, const struct gram_view *view, uint32_t length)
{
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++) {
        hash = grams->texts != NULL ? hash_text(hash, view_text(view, i))
                                    : hash_number(hash, view_number(view, i));
    }
    uint32_t slot = (uint32_t)hash & grams->table_mask;
    while (grams->table[slot] != 0) {
        uint32_t gram = grams->table[slot] - 1;
        if (gram_matches(grams, gram, view, length)) {
            return gram;
        }
        slot = (slot + 1) & grams->table_mask;
    }
    return UINT32_MAX;
}

static enum base_status grams_alloc(struct eng_lower *lower, struct grams *grams)
{
    base_assert(grams->item_count <= 1U << 28);
    uint32_t slots = 16;
    while (slots < 2 * grams->item_count && slots < 1U << 30) {
        slots *= 2;
    }
    grams->table_mask = slots - 1;
    grams->table = eng_lower_alloc(lower, slots * sizeof(uint32_t));
    grams->start = eng_lower_alloc(lower, (grams->item_count + (size_t)1) * sizeof(uint32_t));
    grams->length = eng_lower_alloc(lower, (grams->item_count + (size_t)1) * sizeof(uint32_t));
    if (grams->table == NULL || grams->start == NULL || grams->length == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(grams->table, 0, slots * sizeof(uint32_t));
    return BASE_OK;
}

// Reads the pool: ngram_counts[i] is where (i+1)-grams start.
static enum base_status grams_init(struct eng_lower *lower, const struct eng_node *node,
                                   struct grams *grams)
{
    const struct eng_attr *texts = eng_node_attr(node, "pool_strings");
    uint32_t kinds = 0;
    const int64_t *starts = eng_node_ints(node, "ngram_counts", &kinds);
    grams->numbers = eng_node_ints(node, "pool_int64s", &grams->item_count);
    if (grams->numbers == NULL && texts != NULL && texts->kind == ENG_ATTR_STRINGS) {
        grams->texts = texts->u.strings;
        grams->item_count = texts->count;
    }
    if ((grams->numbers == NULL) == (grams->texts == NULL) || grams->item_count > 1U << 28) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "one of pool_strings and pool_int64s is wanted");
    }
    BASE_TRY(grams_alloc(lower, grams));
    for (uint32_t k = 0; k < kinds; k++) {
        int64_t from = starts[k];
        int64_t to = k + 1 < kinds ? starts[k + 1] : (int64_t)grams->item_count;
        if (from < 0 || to < from || to > (int64_t)grams->item_count ||
            (to - from) % (int64_t)(k + 1) != 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "ngram_counts[%u] does not fit",
                                  k);
        }
        for (int64_t at = from; at < to; at += k + 1) {
            base_assert(grams->count < grams->item_count);
            grams->start[grams->count] = (uint32_t)at;
            grams->length[grams->count] = k + 1;
            insert_gram(grams, grams->count++);
        }
    }
    return BASE_OK;
}

struct vectorizer {
    struct grams grams;
    const int64_t *indexes; // gram -> column
    const float *weights;   // by gram, NULL: none
    int64_t columns;
    int64_t gram_min, gram_max, skip_max;
    bool is_idf, is_tfidf;
};

static enum base_status vectorizer_init(struct eng_lower *lower, const struct eng_node *node,
                                        struct vectorizer *vectorizer)
{
    base_assert(vectorizer->columns == 0 && vectorizer->grams.count == 0);
    struct eng_string mode = eng_node_string(node, "mode", "TF");
    uint32_t index_count = 0;
    uint32_t weight_count = 0;
    BASE_TRY(grams_init(lower, node, &vectorizer->grams));
    vectorizer->is_idf = eng_string_is(mode, "IDF");
    vectorizer->is_tfidf = eng_string_is(mode, "TFIDF");
    vectorizer->indexes = eng_node_ints(node, "ngram_indexes", &index_count);
    vectorizer->weights = eng_node_floats(node, "weights", &weight_count);
    vectorizer->gram_min = eng_node_int(node, "min_gram_length", 1);
    vectorizer->gram_max = eng_node_int(node, "max_gram_length", 1);
    vectorizer->skip_max = eng_node_int(node, "max_skip_count", 0);
    if ((!vectorizer->is_idf && !vectorizer->is_tfidf && !eng_string_is(mode, "TF")) ||
        vectorizer->gram_min < 1 || vectorizer->gram_max < vectorizer->gram_min ||
        vectorizer->skip_max < 0 || index_count != vectorizer->grams.count ||
        (vectorizer->weights != NULL && weight_count != vectorizer->grams.count)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "mode, gram lengths, indexes or weights do not fit the pool");
    }
    for (uint32_t i = 0; i < index_count; i++) {
        if (vectorizer->indexes[i] < 0 || vectorizer->indexes[i] >= ENG_ELEMENTS_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "ngram_indexes[%u] is %lld", i,
                                  (long long)vectorizer->indexes[i]);
        }
        vectorizer->columns = vectorizer->indexes[i] + 1 > vectorizer->columns
                                  ? vectorizer->indexes[i] + 1
                                  : vectorizer->columns;
    }
    return BASE_OK;
}

// Counts the grams of one document of `size` items from `first` on into `out`.
static void count_grams(const struct vectorizer *vectorizer, const struct eng_array *input,
                        int64_t first, int64_t size, float *out)
{
    base_assert(vectorizer->gram_min >= 1 && vectorizer->gram_max >= vectorizer->gram_min);
    for (int64_t skip = 0; skip <= vectorizer->skip_max && skip < size; skip++) {
        for (int64_t n = vectorizer->gram_min; n <= vectorizer->gram_max && n <= size; n++) {
            // A gram of one item has nothing to skip: it counts once.
            int64_t reach = (n - 1) * (skip + 1);
            if (n == 1 && skip > 0) {
                continue;
            }
            for (int64_t at = 0; at + reach < size; at++) {
                struct gram_view view = {input, first + at, skip + 1};
                uint32_t gram = find_gram(&vectorizer->grams, &view, (uint32_t)n);
                if (gram != UINT32_MAX) {
                    out[vectorizer->indexes[gram]] += 1;
                }
            }
        }
    }
}

static void apply_weights(const struct vectorizer *vectorizer, float *out)
{
    if (!vectorizer->is_idf && !vectorizer->is_tfidf) {
        return;
    }
    for (int64_t c = 0; vectorizer->is_idf && c < vectorizer->columns; c++) {
        out[c] = out[c] > 0 ? 1 : 0;
    }
    for (uint32_t g = 0; vectorizer->weights != NULL && g < vectorizer->grams.count; g++) {
        out[vectorizer->indexes[g]] *= vectorizer->weights[g];
    }
}

static enum base_status lower_vectorizer(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_array x;
    struct vectorizer v = {0};
    BASE_TRY(eng_input_content(lower, node, 0, &x));
    BASE_TRY(vectorizer_init(lower, node, &v));
    bool is_text = x.desc.dtype == ENG_STRING;
    if (x.desc.rank < 1 || x.desc.rank > 2 || is_text != (v.grams.texts != NULL) ||
        (!is_text && x.desc.dtype != ENG_I32 && x.desc.dtype != ENG_I64)) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %s does not suit the pool",
                              eng_desc_text(&x.desc, text, sizeof(text)));
    }
    int64_t rows = x.desc.rank == 2 ? x.desc.dims[0] : 1;
    int64_t size = x.desc.dims[x.desc.rank - 1];
    base_assert(rows * size == eng_desc_count(&x.desc));
    struct eng_desc desc = x.desc;
    desc.dtype = ENG_F32;
    desc.dims[desc.rank - 1] = v.columns;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    float *out = eng_lower_alloc(lower, eng_desc_bytes(&desc) + 1);
    if (out == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(out, 0, eng_desc_bytes(&desc));
    for (int64_t row = 0; row < rows; row++) {
        count_grams(&v, &x, row * size, size, out + row * v.columns);
        apply_weights(&v, out + row * v.columns);
    }
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_const(lower, &desc, out, &tensor));
    return eng_lower_output(lower, node, 0, tensor);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("StringNormalizer", 10, ENG_OPSET_MAX, CONTROL, lower_normalizer),
    ENG_OP_ROW("TfIdfVectorizer", 9, ENG_OPSET_MAX, CONTROL, lower_vectorizer),
};
const struct eng_op_table eng_ops_text = ENG_OP_TABLE(rows);
