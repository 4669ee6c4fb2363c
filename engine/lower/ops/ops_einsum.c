// Einsum: the equation is parsed into labelled operands, which are then joined from left to right.
//
// Joining two operands sorts their labels into batch (in both, needed later), contracted (in both,
// not needed later) and free ones, and is one batched product; without contracted labels it is one
// multiplication that broadcasts. Called by lowering on the planning thread.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <string.h>

#define EQUATION_MAX   256u // characters
#define OPERANDS_MAX   32u
#define ELLIPSIS_LABEL 52u // labels: a-z, A-Z, then the dims of an ellipsis from the left
#define LABELS_MAX     (ELLIPSIS_LABEL + ENG_RANK_MAX)

struct term {
    uint32_t rank;
    uint8_t labels[ENG_RANK_MAX];
};

struct operand {
    uint32_t tensor;
    struct term term; // labels of its dims
    struct term own;  // in a join: those that the other side does not have
    bool swapped;     // in a join: [batch, contracted, own] instead of [batch, own, contracted]
};

struct einsum {
    const struct eng_node *node;
    uint32_t count;
    struct operand operands[OPERANDS_MAX];
    struct term output;
    int64_t dims[LABELS_MAX];  // size of each label
    uint32_t last[LABELS_MAX]; // last operand that has it
    uint32_t uses[LABELS_MAX]; // how often it appears in the inputs
    bool in_output[LABELS_MAX];
    uint32_t ellipsis_rank; // of the widest ellipsis
};

static bool has_label(const struct term *term, uint8_t label)
{
    for (uint32_t i = 0; i < term->rank; i++) {
        if (term->labels[i] == label) {
            return true;
        }
    }
    return false;
}

static int label_of(char letter)
{
    if (letter >= 'a' && letter <= 'z') {
        return letter - 'a';
    }
    return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 26 : -1;
}

// --- the equation --------------------------------------------------------------------------------

// One term of the text; `ellipsis` is how many dims "..." stands for.
static enum base_status parse_term(struct eng_lower *lower, const struct einsum *einsum,
                                   struct eng_string text, uint32_t ellipsis, struct term *out)
{
    base_assert(ellipsis <= einsum->ellipsis_rank);
    bool seen = false;
    out->rank = 0;
    for (size_t i = 0; i < text.size;) {
        uint32_t more = 1;
        int label = label_of(text.at[i]);
        if (label < 0) {
            if (seen || i + 3 > text.size || memcmp(text.at + i, "...", 3) != 0) {
                return eng_lower_fail(lower, einsum->node, BASE_ERR_INVALID,
                                      "equation: '%.*s' is not a term", (int)text.size, text.at);
            }
            seen = true;
            more = ellipsis;
            label = (int)(ELLIPSIS_LABEL + einsum->ellipsis_rank - ellipsis);
        }
        i += label_of(text.at[i]) < 0 ? 3 : 1;
        if (out->rank + more > ENG_RANK_MAX) {
            return eng_lower_fail(lower, einsum->node, BASE_ERR_UNSUPPORTED,
                                  "equation: a term has more than %d dimensions", ENG_RANK_MAX);
        }
        for (uint32_t k = 0; k < more; k++) {
            out->labels[out->rank++] = (uint8_t)((uint32_t)label + k);
        }
    }
    return BASE_OK;
}

// Dims that "..." takes in a term on a tensor of `rank`; -1: the ranks differ.
static int ellipsis_dims(struct eng_string text, uint32_t rank)
{
    uint32_t letters = 0;
    bool has = false;
    for (size_t i = 0; i < text.size; i++) {
        letters += label_of(text.at[i]) >= 0 ? 1u : 0u;
        has = has || text.at[i] == '.';
    }
    if (letters > rank || (!has && letters != rank)) {
        return -1;
    }
    return (int)(rank - letters);
}

struct equation {
    char text[EQUATION_MAX];
    size_t size;
    struct eng_string terms[OPERANDS_MAX]; // of the inputs, in `text`
    uint32_t count;
    size_t output; // where the output's term begins, SIZE_MAX: none
};

// Copies the equation without blanks and cuts it into terms.
static enum base_status split_equation(struct eng_lower *lower, const struct eng_node *node,
                                       struct equation *eq)
{
    struct eng_string s = eng_node_string(node, "equation", "");
    eq->size = 0;
    for (uint64_t i = 0; i < s.size; i++) {
        if (s.at[i] != ' ') {
            if (eq->size == EQUATION_MAX) {
                return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                                      "equation: over %u characters", EQUATION_MAX);
            }
            eq->text[eq->size++] = s.at[i];
        }
    }
    eq->output = SIZE_MAX;
    eq->count = 0;
    size_t end = eq->size;
    for (size_t i = 0; i + 1 < eq->size; i++) {
        if (eq->text[i] == '-' && eq->text[i + 1] == '>') {
            end = i;
            eq->output = i + 2;
            break;
        }
    }
    size_t begin = 0;
    for (size_t i = 0; i <= end; i++) {
        if (i == end || eq->text[i] == ',') {
            if (eq->count == OPERANDS_MAX) {
                return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "over %u operands",
                                      OPERANDS_MAX);
            }
            eq->terms[eq->count++] = (struct eng_string){eq->text + begin, i - begin};
            begin = i + 1;
        }
    }
    base_assert(end <= eq->size && (eq->output == SIZE_MAX || eq->output <= eq->size));
    if (eq->count != node->input_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "equation: %u terms for %u inputs",
                              eq->count, node->input_count);
    }
    return BASE_OK;
}

// Sizes of the labels; a dim of 1 broadcasts.
static enum base_status note_dims(struct eng_lower *lower, struct einsum *einsum, uint32_t index)
{
    const struct operand *op = &einsum->operands[index];
    struct eng_desc desc = *eng_lower_desc(lower, op->tensor);
    base_assert(op->term.rank == desc.rank);
    for (uint32_t i = 0; i < op->term.rank; i++) {
        uint8_t label = op->term.labels[i];
        int64_t dim = desc.dims[i];
        if (einsum->uses[label] == 0 || einsum->dims[label] == 1) {
            einsum->dims[label] = dim;
        } else if (dim != 1 && dim != einsum->dims[label]) {
            return eng_lower_fail(lower, einsum->node, BASE_ERR_INVALID,
                                  "equation: one label has sizes %lld and %lld",
                                  (long long)einsum->dims[label], (long long)dim);
        }
        einsum->uses[label]++;
        einsum->last[label] = index;
    }
    return BASE_OK;
}

// Without "->" the output is the ellipsis and, in alphabetical order, the labels that appear once.
static enum base_status read_output(struct eng_lower *lower, struct einsum *einsum,
                                    const struct equation *eq)
{
    base_assert(einsum->ellipsis_rank <= ENG_RANK_MAX);
    if (eq->output != SIZE_MAX) {
        const struct eng_string text = {eq->text + eq->output, eq->size - eq->output};
        BASE_TRY(parse_term(lower, einsum, text, einsum->ellipsis_rank, &einsum->output));
    } else {
        for (uint32_t i = 0; i < einsum->ellipsis_rank; i++) {
            einsum->output.labels[einsum->output.rank++] = (uint8_t)(ELLIPSIS_LABEL + i);
        }
        for (uint32_t k = 0; k < ELLIPSIS_LABEL; k++) {
            // Upper-case letters sort before lower-case ones.
            uint32_t label = k < 26 ? k + 26 : k - 26;
            if (einsum->uses[label] == 1) {
                if (einsum->output.rank == ENG_RANK_MAX) {
                    return eng_lower_fail(lower, einsum->node, BASE_ERR_UNSUPPORTED,
                                          "the output has more than %d dimensions", ENG_RANK_MAX);
                }
                einsum->output.labels[einsum->output.rank++] = (uint8_t)label;
            }
        }
    }
    for (uint32_t i = 0; i < einsum->output.rank; i++) {
        uint8_t label = einsum->output.labels[i];
        if (einsum->in_output[label] || einsum->uses[label] == 0) {
            return eng_lower_fail(lower, einsum->node, BASE_ERR_INVALID,
                                  "equation: the output repeats a label or has one of its own");
        }
        einsum->in_output[label] = true;
    }
    return BASE_OK;
}

static enum base_status read_operands(struct eng_lower *lower, struct einsum *einsum,
                                      enum eng_dtype *dtype)
{
    base_assert(einsum->count == 0 && einsum->ellipsis_rank == 0);
    struct equation eq;
    int ellipsis[OPERANDS_MAX];
    BASE_TRY(split_equation(lower, einsum->node, &eq));
    einsum->count = eq.count;
    for (uint32_t i = 0; i < eq.count; i++) {
        uint32_t *tensor = &einsum->operands[i].tensor;
        BASE_TRY(eng_nn_input(lower, einsum->node, i, NN_TYPES_NUMERIC, tensor));
        const struct eng_desc desc = *eng_lower_desc(lower, *tensor);
        *dtype = i == 0 ? desc.dtype : *dtype;
        BASE_TRY(eng_nn_same_type(lower, einsum->node, i, desc.dtype, *dtype));
        ellipsis[i] = ellipsis_dims(eq.terms[i], desc.rank);
        if (ellipsis[i] < 0) {
            return eng_lower_fail(lower, einsum->node, BASE_ERR_INVALID,
                                  "equation: '%.*s' does not describe an input of rank %u",
                                  (int)eq.terms[i].size, eq.terms[i].at, desc.rank);
        }
        if ((uint32_t)ellipsis[i] > einsum->ellipsis_rank) {
            einsum->ellipsis_rank = (uint32_t)ellipsis[i];
        }
    }
    for (uint32_t i = 0; i < eq.count; i++) {
        BASE_TRY(parse_term(lower, einsum, eq.terms[i], (uint32_t)ellipsis[i],
                            &einsum->operands[i].term));
        BASE_TRY(note_dims(lower, einsum, i));
    }
    return read_output(lower, einsum, &eq);
}

// --- the operands --------------------------------------------------------------------------------

// Makes the labels of an operand unique (a repeated one reads the diagonal) and drops dims of 1
// where the label is larger elsewhere.
static enum base_status simplify(struct eng_lower *lower, const struct einsum *einsum,
                                 struct operand *op)
{
    struct eng_desc desc = *eng_lower_desc(lower, op->tensor);
    base_assert(op->term.rank == desc.rank);
    struct term term = {0};
    struct eng_desc to = {.dtype = desc.dtype};
    struct eng_region region = {0};
    int64_t strides[ENG_RANK_MAX];
    int64_t picked[ENG_RANK_MAX] = {0};
    bool diagonal = false;
    eng_layout_strides(&desc, ENG_PLAIN, strides);
    for (uint32_t i = 0; i < desc.rank; i++) {
        uint8_t label = op->term.labels[i];
        if (desc.dims[i] == 1 && einsum->dims[label] != 1) {
            continue;
        }
        uint32_t at = 0;
        while (at < term.rank && term.labels[at] != label) {
            at++;
        }
        if (at == term.rank) {
            term.labels[term.rank++] = label;
            to.dims[to.rank++] = desc.dims[i];
        } else {
            diagonal = true;
        }
        picked[at] += strides[i];
    }
    base_assert(term.rank == to.rank);
    if (!diagonal) {
        op->term = term;
        return eng_nn_reshape(lower, op->tensor, &to, &op->tensor);
    }
    if (to.rank > ENG_REGION_RANK_MAX) {
        return eng_lower_fail(lower, einsum->node, BASE_ERR_UNSUPPORTED,
                              "equation: a diagonal of more than %d dimensions",
                              ENG_REGION_RANK_MAX);
    }
    BASE_TRY(eng_lower_plain(lower, op->tensor, &region.source));
    region.rank = to.rank;
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&to, ENG_PLAIN, dst);
    for (uint32_t i = 0; i < to.rank; i++) {
        region.size[i] = to.dims[i];
        region.src_stride[i] = picked[i];
        region.dst_stride[i] = dst[i];
    }
    op->term = term;
    return eng_lower_virtual(lower, &to, &region, 1, &op->tensor);
}

// Sums the labels that neither `other` (NULL: none) nor an operand after `index` nor the output
// has.
static enum base_status sum_unneeded(struct eng_lower *lower, const struct einsum *einsum,
                                     struct operand *op, const struct term *other, uint32_t index)
{
    uint32_t axes[ENG_RANK_MAX];
    uint32_t count = 0;
    struct term kept = {0};
    for (uint32_t i = 0; i < op->term.rank; i++) {
        uint8_t label = op->term.labels[i];
        if (einsum->in_output[label] || einsum->last[label] > index ||
            (other != NULL && has_label(other, label))) {
            kept.labels[kept.rank++] = label;
        } else {
            axes[count++] = i;
        }
    }
    base_assert(count + kept.rank == op->term.rank);
    if (count == 0) {
        return BASE_OK;
    }
    op->term = kept;
    const struct eng_reduction sum = {.fn = ENG_REDUCE_SUM, .axes = axes, .axis_count = count};
    return eng_emit_reduce(lower, &sum, op->tensor, &op->tensor);
}

static enum base_status reorder(struct eng_lower *lower, struct operand *op, const struct term *to)
{
    uint32_t perm[ENG_RANK_MAX];
    bool same = true;
    base_assert(op->term.rank == to->rank);
    for (uint32_t i = 0; i < to->rank; i++) {
        perm[i] = 0;
        while (op->term.labels[perm[i]] != to->labels[i]) {
            perm[i]++;
        }
        same = same && perm[i] == i;
    }
    op->term = *to;
    return same ? BASE_OK : eng_lower_transpose(lower, op->tensor, perm, &op->tensor);
}

// Labels that both sides of a join have: needed later, and summed over.
struct shared {
    struct term batch, contracted;
};

static void append(struct term *to, const struct term *from)
{
    base_assert(to->rank + from->rank <= ENG_RANK_MAX);
    for (uint32_t i = 0; i < from->rank; i++) {
        to->labels[to->rank++] = from->labels[i];
    }
}

static int64_t group_count(const struct einsum *einsum, const struct term *term)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < term->rank; i++) {
        n *= einsum->dims[term->labels[i]];
    }
    return n;
}

// Brings an operand to [batch, own, contracted], or leaves it at [batch, contracted, own] when it
// already is, as a tensor of three dims.
static enum base_status arrange(struct eng_lower *lower, const struct einsum *einsum,
                                struct operand *op, const struct shared *shared)
{
    base_assert(op->term.rank == shared->batch.rank + shared->contracted.rank + op->own.rank);
    struct term swapped = shared->batch;
    struct term straight = shared->batch;
    append(&swapped, &shared->contracted);
    append(&swapped, &op->own);
    append(&straight, &op->own);
    append(&straight, &shared->contracted);
    op->swapped = memcmp(swapped.labels, op->term.labels, swapped.rank) == 0 &&
                  memcmp(straight.labels, op->term.labels, straight.rank) != 0;
    if (!op->swapped) {
        BASE_TRY(reorder(lower, op, &straight));
    }
    int64_t inner = group_count(einsum, &shared->contracted);
    int64_t rows = group_count(einsum, &op->own);
    struct eng_desc cube =
        eng_nn_desc3(eng_lower_desc(lower, op->tensor)->dtype, group_count(einsum, &shared->batch),
                     op->swapped ? inner : rows, op->swapped ? rows : inner);
    return eng_nn_reshape(lower, op->tensor, &cube, &op->tensor);
}

// a [batch, m, k] and b as [batch, n, k] (or with the last two swapped): a->tensor becomes the
// product, or without contracted labels the outer product by broadcasting.
static enum base_status multiply(struct eng_lower *lower, const struct einsum *einsum,
                                 struct operand *one, struct operand *other,
                                 const struct shared *shared)
{
    BASE_TRY(arrange(lower, einsum, one, shared));
    BASE_TRY(arrange(lower, einsum, other, shared));
    if (shared->contracted.rank > 0) {
        return eng_emit_matmul(lower, (struct eng_factor){one->tensor, one->swapped},
                               (struct eng_factor){other->tensor, !other->swapped}, 1.0f,
                               &one->tensor);
    }
    int64_t batch = group_count(einsum, &shared->batch);
    enum eng_dtype dtype = eng_lower_desc(lower, one->tensor)->dtype;
    struct eng_desc column = eng_nn_desc3(dtype, batch, group_count(einsum, &one->own), 1);
    struct eng_desc row = eng_nn_desc3(dtype, batch, 1, group_count(einsum, &other->own));
    uint32_t left;
    uint32_t right;
    BASE_TRY(eng_nn_reshape(lower, one->tensor, &column, &left));
    BASE_TRY(eng_nn_reshape(lower, other->tensor, &row, &right));
    return eng_emit_binary(lower, ENG_MUL, left, right, &one->tensor);
}

// Joins operand `index` into `a`.
static enum base_status join(struct eng_lower *lower, const struct einsum *einsum,
                             struct operand *left, struct operand *right, uint32_t index)
{
    base_assert(index > 0 && index < einsum->count);
    BASE_TRY(sum_unneeded(lower, einsum, left, &right->term, index));
    BASE_TRY(sum_unneeded(lower, einsum, right, &left->term, index));
    struct shared shared = {.batch.rank = 0};
    left->own.rank = 0;
    right->own.rank = 0;
    for (uint32_t i = 0; i < left->term.rank; i++) {
        uint8_t label = left->term.labels[i];
        bool later = einsum->in_output[label] || einsum->last[label] > index;
        struct term *group = !has_label(&right->term, label) ? &left->own
                             : later                         ? &shared.batch
                                                             : &shared.contracted;
        group->labels[group->rank++] = label;
    }
    for (uint32_t i = 0; i < right->term.rank; i++) {
        if (!has_label(&left->term, right->term.labels[i])) {
            right->own.labels[right->own.rank++] = right->term.labels[i];
        }
    }
    if (shared.batch.rank + left->own.rank + right->own.rank > ENG_RANK_MAX) {
        return eng_lower_fail(lower, einsum->node, BASE_ERR_UNSUPPORTED,
                              "a partial result has more than %d dimensions", ENG_RANK_MAX);
    }
    struct eng_desc desc = {.dtype = eng_lower_desc(lower, left->tensor)->dtype};
    BASE_TRY(multiply(lower, einsum, left, right, &shared));
    left->term = shared.batch;
    append(&left->term, &left->own);
    append(&left->term, &right->own);
    for (uint32_t i = 0; i < left->term.rank; i++) {
        desc.dims[desc.rank++] = einsum->dims[left->term.labels[i]];
    }
    return eng_nn_reshape(lower, left->tensor, &desc, &left->tensor);
}

static enum base_status lower_einsum(struct eng_lower *lower, const struct eng_node *node)
{
    struct einsum *e = eng_lower_alloc(lower, sizeof(*e));
    if (e == NULL) {
        return BASE_ERR_NOMEM;
    }
    *e = (struct einsum){.node = node};
    enum eng_dtype dtype = ENG_UNDEFINED;
    BASE_TRY(read_operands(lower, e, &dtype));
    // Products exist for floating point and wide integers.
    bool small = dtype == ENG_I8 || dtype == ENG_U8 || dtype == ENG_I16 || dtype == ENG_U16;
    for (uint32_t i = 0; i < e->count; i++) {
        struct operand *op = &e->operands[i];
        BASE_TRY(eng_emit_cast(lower, op->tensor, small ? ENG_I32 : dtype, &op->tensor));
        BASE_TRY(simplify(lower, e, op));
    }
    struct operand *y = &e->operands[0];
    for (uint32_t i = 1; i < e->count; i++) {
        BASE_TRY(join(lower, e, y, &e->operands[i], i));
    }
    BASE_TRY(sum_unneeded(lower, e, y, NULL, e->count));
    BASE_TRY(reorder(lower, y, &e->output));
    base_assert(eng_lower_desc(lower, y->tensor)->rank == e->output.rank);
    BASE_TRY(eng_emit_cast(lower, y->tensor, dtype, &y->tensor));
    return eng_lower_output(lower, node, 0, y->tensor);
}

static const struct eng_op rows[] = {
    NN_ROW("Einsum", 12, COMPOSITE, lower_einsum),
};
const struct eng_op_table eng_ops_einsum = NN_TABLE(rows);
