// The operator tables joined: lookup by name and opset, and the lists that engine.h publishes.
//
// Called at model load (any thread) and by documentation and tests. Immutable but for the public
// list, which is put together once.
#include "lower/op_tables.h"

#include "base/check.h"

#include <pthread.h>
#include <string.h>

#define OPERATOR_ROWS_MAX 1024u

static const struct eng_op_table *const tables[] = {
    &eng_ops_math,    &eng_ops_reduce,  &eng_ops_conv,    &eng_ops_norm,    &eng_ops_matmul,
    &eng_ops_rnn,     &eng_ops_loss,    &eng_ops_quant,   &eng_ops_shape,   &eng_ops_move,
    &eng_ops_pad,     &eng_ops_gather,  &eng_ops_scatter, &eng_ops_content, &eng_ops_sequence,
    &eng_ops_control, &eng_ops_random,  &eng_ops_signal,  &eng_ops_vision,  &eng_ops_text,
    &eng_ops_cast,    &eng_ops_dropout, &eng_ops_pool,    &eng_ops_einsum,  &eng_ops_optimizer,
    &eng_ops_image,   &eng_ops_strings,
};
#define TABLE_COUNT (sizeof(tables) / sizeof(tables[0]))

const struct eng_op *eng_op_find(const char *domain, const char *name, int32_t opset)
{
    if (domain[0] == '\0' && opset < ENG_OPSET_FULL) {
        opset = ENG_OPSET_FULL; // older forms: see ENG_OPSET_MIN
    }
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct eng_op *op = &tables[t]->ops[i];
            if (op->name[0] == name[0] && strcmp(op->name, name) == 0 && opset >= op->opset_min &&
                opset <= op->opset_max && strcmp(op->domain, domain) == 0) {
                return op;
            }
        }
    }
    return NULL;
}

static struct eng_operator_info infos[OPERATOR_ROWS_MAX];
static size_t info_count;
static pthread_once_t info_once = PTHREAD_ONCE_INIT;

static void list_operators(void)
{
    static const char *const kinds[] = {"atomic", "transform", "composite", "control"};
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct eng_op *op = &tables[t]->ops[i];
            base_check(info_count < OPERATOR_ROWS_MAX);
            infos[info_count++] = (struct eng_operator_info){op->domain, op->name, kinds[op->kind],
                                                             op->opset_min, op->opset_max};
        }
    }
}

size_t eng_operator_count(void)
{
    pthread_once(&info_once, list_operators);
    return info_count;
}

const struct eng_operator_info *eng_operator(size_t index)
{
    return index < eng_operator_count() ? &infos[index] : NULL;
}

size_t eng_atomic_count(void)
{
    return ENG_OP_COUNT - 1; // RASTER is number 0
}

const char *eng_atomic_name(size_t index)
{
    return index < eng_atomic_count() ? eng_atomic_text((enum eng_atomic)(index + 1)) : NULL;
}
