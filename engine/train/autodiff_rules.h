// What the gradient rules share. Nobody outside autodiff*.c includes this.
#ifndef ENG_TRAIN_AUTODIFF_RULES_H
#define ENG_TRAIN_AUTODIFF_RULES_H

#include "train/autodiff.h"

struct eng_ad {
    struct eng_program *program;
    struct base_error *error;
    uint32_t tensor_count; // of the forward program
    uint32_t *gradients;   // by tensor (aliases: of what they name); ENG_NONE: none yet
    bool *needs;           // by tensor: depends on something wanted, and is of a float type
};

static inline const struct eng_tensor *ad_tensor(const struct eng_ad *ad, uint32_t tensor)
{
    return &ad->program->tensors[tensor];
}
static inline int64_t ad_count(const struct eng_ad *ad, uint32_t tensor)
{
    return eng_desc_count(&ad_tensor(ad, tensor)->desc);
}
static inline bool ad_is_float(const struct eng_ad *ad, uint32_t tensor)
{
    enum eng_dtype dtype = ad_tensor(ad, tensor)->desc.dtype;
    return dtype == ENG_F32 || dtype == ENG_F64 || dtype == ENG_F16 || dtype == ENG_BF16;
}
// The tensor whose bytes these are.
static inline uint32_t ad_root(const struct eng_ad *ad, uint32_t tensor)
{
    uint32_t alias = ad_tensor(ad, tensor)->alias;
    return alias == ENG_NONE ? tensor : alias;
}
// Whether input i of a command is there and wants a gradient.
static inline bool ad_needs(const struct eng_ad *ad, const struct eng_command *command,
                            uint32_t index)
{
    return index < command->input_count && command->inputs[index] != ENG_NONE &&
           ad->needs[ad_root(ad, command->inputs[index])];
}

// UNSUPPORTED: "no gradient of <command>: why".
enum base_status ad_refuse(const struct eng_ad *ad, const struct eng_command *command,
                           const char *why);

// --- making tensors and commands
// A TEMP of `count` elements in a row.
BASE_NODISCARD enum base_status ad_flat(struct eng_ad *ad, enum eng_dtype dtype, int64_t count,
                                        uint32_t *out);
// A TEMP of the same description and layout.
BASE_NODISCARD enum base_status ad_like(struct eng_ad *ad, uint32_t tensor, uint32_t *out);
// The same elements under the description and layout of `like`: itself or an alias.
BASE_NODISCARD enum base_status ad_as(struct eng_ad *ad, uint32_t tensor, uint32_t like,
                                      uint32_t *out);
// A CONST of one element of that type.
BASE_NODISCARD enum base_status ad_scalar(struct eng_ad *ad, enum eng_dtype dtype, double value,
                                          uint32_t *out);
// A CONST I64 vector over `values` (which stay).
BASE_NODISCARD enum base_status ad_ints(struct eng_ad *ad, const int64_t *values, int64_t count,
                                        uint32_t *out);
// A TEMP like `tensor` full of zeros.
BASE_NODISCARD enum base_status ad_zeros(struct eng_ad *ad, uint32_t tensor, uint32_t *out);
// The tensors a command of one output reads and writes.
struct ad_ports {
    const uint32_t *inputs; // tensors or ENG_NONE; copied
    uint32_t input_count;
    uint32_t output; // a TEMP no other command writes
};
// The pointer is valid until the next call.
BASE_NODISCARD enum base_status ad_command(struct eng_ad *ad, enum eng_atomic op,
                                           const struct ad_ports *ports, struct eng_command **out);
// A reduction of a tensor: [outer, inner] in a row.
BASE_NODISCARD enum base_status ad_reduce(struct eng_ad *ad, uint32_t tensor,
                                          const struct eng_reduce *reduce, uint32_t *out);

// --- elementwise expressions: loads first, then instructions, then ad_expr_emit
struct ad_expr {
    struct eng_expr expr;
    uint32_t loads[ENG_EXPR_LOADS_MAX];
    struct eng_view views[ENG_EXPR_LOADS_MAX];
    struct eng_box box;
};
void ad_expr_init(struct ad_expr *expr, const struct eng_box *box);
uint8_t ad_load(struct ad_expr *expr, uint32_t tensor, const struct eng_view *view);
uint8_t ad_load_dense(struct ad_expr *expr, uint32_t tensor);
uint8_t ad_unary(struct ad_expr *expr, enum eng_unary_fn fn, uint8_t operand);
uint8_t ad_unary_with(struct ad_expr *expr, enum eng_unary_fn fn, float alpha, float beta,
                      uint8_t operand);
uint8_t ad_binary(struct ad_expr *expr, enum eng_binary_fn fn, uint8_t left, uint8_t right);
uint8_t ad_const(struct ad_expr *expr, double value);
// Conveniences: a * value, a + value, 1 where a > limit else 0.
uint8_t ad_times(struct ad_expr *expr, uint8_t operand, double value);
uint8_t ad_plus(struct ad_expr *expr, uint8_t operand, double value);
uint8_t ad_above(struct ad_expr *expr, uint8_t operand, double limit);
// The last instruction is the result, of `dtype`.
BASE_NODISCARD enum base_status ad_expr_emit(struct eng_ad *ad, const struct ad_expr *expr,
                                             enum eng_dtype dtype, uint32_t *out);
// The box of a dense tensor: its elements in a row.
struct eng_box ad_row(const struct eng_ad *ad, uint32_t tensor);
struct eng_view ad_dense_view(const struct eng_box *box);
int64_t ad_volume(const struct eng_box *box);

// --- passing gradients on
// Adds `gradient` (as many elements, same order) to what `tensor` has.
BASE_NODISCARD enum base_status ad_give(struct eng_ad *ad, uint32_t tensor, uint32_t gradient);
// The same for an operand read through `view`: `gradient` is dense over `box`.
BASE_NODISCARD enum base_status ad_give_view(struct eng_ad *ad, uint32_t tensor, uint32_t gradient,
                                             const struct eng_box *box,
                                             const struct eng_view *view);

// To a bias, if there is one that wants it: dy over `box` [outer, channels, inner], summed over all
// but the channels.
BASE_NODISCARD enum base_status ad_give_bias(struct eng_ad *ad, uint32_t bias, uint32_t dy,
                                             const struct eng_box *box);

// --- rules: `command` is a copy, `dy` the gradient of its output 0 in that output's description
typedef enum base_status (*ad_rule_fn)(struct eng_ad *ad, const struct eng_command *command,
                                       uint32_t dy);
enum base_status ad_rule_unary(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_binary(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_select(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_cast(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_reduce(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_softmax(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_norm(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_cumsum(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_matmul(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_conv(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_conv_transpose(struct eng_ad *ad, const struct eng_command *command,
                                        uint32_t dy);
enum base_status ad_rule_pool(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_resize(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_raster(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_gather(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_scatter(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);
enum base_status ad_rule_topk(struct eng_ad *ad, const struct eng_command *command, uint32_t dy);

#endif
