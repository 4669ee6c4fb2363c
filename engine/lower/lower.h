// Lowering: a graph, with concrete input shapes, becomes a program of atomic commands and rasters.
//
// One function per operator does everything: checks inputs, computes output shapes, decomposes.
// Shape inference is lowering whose commands nobody runs. Lowering walks the nodes in order; nodes
// whose inputs are all known contents are evaluated on the spot (constant folding, shape
// arithmetic).
//
// Slots. Each graph value is bound to a slot: a tensor of the program, a sequence of slots, or an
// empty optional.
//
// Contents. An operator whose output *shape* (or control flow) depends on what a tensor holds asks
// eng_lower_content. When the contents are not known yet, that returns BASE_ERR_BUSY and the
// handler passes it on: lowering stops before this node, the session runs the program so far, and
// goes on lowering with those contents known. A handler may therefore run twice; what it emitted is
// undone. Such operators (NonZero, Unique, NonMaxSuppression, Loop, If...) then work on known
// contents and produce constants (eng_lower_const) or continue with the tensors of the chosen
// branch.
//
// Raster. Operators that only move data call eng_lower_virtual with regions. Regions over virtual
// tensors are composed with theirs at once (vertical merging); equal rasters are shared (horizontal
// merging). A virtual tensor is made real by the first emit that reads it.
//
// Layout. eng_emit_conv and eng_emit_pool work in CHANNELS_LAST; elementwise emits keep the layout
// of their full-shape operands. Everything else sees PLAIN tensors: eng_lower_plain converts (a
// region, so that it merges away between data-moving operators).
//
// Every function returns a status; handlers pass failures on with BASE_TRY. To refuse a model use
// eng_lower_fail, which names the node.
#ifndef ENG_LOWER_LOWER_H
#define ENG_LOWER_LOWER_H

#include "model/look.h"
#include "model/graph.h"
#include "program/program.h"

struct eng_lower;

enum eng_op_kind { ENG_KIND_ATOMIC, ENG_KIND_TRANSFORM, ENG_KIND_COMPOSITE, ENG_KIND_CONTROL };
typedef enum base_status (*eng_op_fn)(struct eng_lower *lower, const struct eng_node *node);

// One row of the operator tables. Ranges of one operator do not overlap.
struct eng_op {
    const char *domain; // "" is ONNX
    const char *name;
    int32_t opset_min, opset_max;
    enum eng_op_kind kind;
    eng_op_fn lower;
};
struct eng_op_table {
    const struct eng_op *ops;
    uint32_t count;
};
// Row for a node, NULL when the operator is unknown at that opset.
const struct eng_op *eng_op_find(const char *domain, const char *name, int32_t opset);

// --- what a handler reads
// -------------------------------------------------------------------------
struct eng_slot {
    enum eng_value_type type; // TENSOR, SEQUENCE, OPTIONAL (empty)
    uint32_t tensor;          // TENSOR
    uint32_t item_count;      // SEQUENCE: tensors; an element type for empty ones
    const uint32_t *items;
    enum eng_dtype dtype;
};

// Whether input i is present (index in range, not ENG_NONE, bound).
bool eng_lower_has(const struct eng_lower *lower, const struct eng_node *node, uint32_t input);
// Tensor of input i in whatever layout it has. INVALID (naming the input) when absent or not a
// tensor.
BASE_NODISCARD enum base_status eng_lower_input(struct eng_lower *lower,
                                                const struct eng_node *node, uint32_t input,
                                                uint32_t *out);
// The same, or ENG_NONE when the input is absent.
BASE_NODISCARD enum base_status eng_lower_optional(struct eng_lower *lower,
                                                   const struct eng_node *node, uint32_t input,
                                                   uint32_t *out);
BASE_NODISCARD enum base_status eng_lower_slot(struct eng_lower *lower, const struct eng_node *node,
                                               uint32_t input, struct eng_slot *out);
// Logical type and shape of a tensor. Borrowed until the next emit: copy what you keep.
const struct eng_desc *eng_lower_desc(const struct eng_lower *lower, uint32_t tensor);
// Elements of a tensor if known now: dense, PLAIN. BUSY: not known yet (pass it on). Borrowed as
// long as the program.
BASE_NODISCARD enum base_status eng_lower_content(struct eng_lower *lower, uint32_t tensor,
                                                  struct eng_array *out);
bool eng_lower_is_known(const struct eng_lower *lower, uint32_t tensor);
// Content as integers (I32, I64, any integer type; arena copy). INVALID: not integers.
BASE_NODISCARD enum base_status eng_lower_ints(struct eng_lower *lower, const struct eng_node *node,
                                               uint32_t tensor, const int64_t **out,
                                               uint32_t *out_count);
// Content of a one-element tensor as a float (any numeric type).
BASE_NODISCARD enum base_status eng_lower_scalar(struct eng_lower *lower,
                                                 const struct eng_node *node, uint32_t tensor,
                                                 double *out);
// A list of integers that a node has. Borrowed as long as the program.
struct eng_ints {
    const int64_t *values; // NULL: the node has no such list
    uint32_t count;
};
// attribute in early opsets, input in later ones (Squeeze axes, Slice starts...): input when
// present, else attribute (NULL: there never was one), else values NULL, count 0.
BASE_NODISCARD enum base_status eng_lower_ints_of(struct eng_lower *lower,
                                                  const struct eng_node *node, uint32_t input,
                                                  const char *attr, struct eng_ints *out);
// Arena memory with the program's lifetime; NOMEM through NULL.
void *eng_lower_alloc(struct eng_lower *lower, size_t bytes);

// Seed of the session's random numbers (options->seed).
uint64_t eng_lower_seed(const struct eng_lower *lower);
// Where it is noted what the running statistic that is input `input` of the node becomes; NULL:
// nobody asks (options->statistics).
uint32_t *eng_lower_statistic(struct eng_lower *lower, const struct eng_node *node, uint32_t input);

// Fails with "node 'x' (Op, opset n): text".
enum base_status eng_lower_fail(struct eng_lower *lower, const struct eng_node *node,
                                enum base_status status, const char *format, ...) BASE_PRINTF(4, 5);
// Axis in -rank..rank-1 made >= 0; INVALID otherwise.
BASE_NODISCARD enum base_status eng_lower_axis(struct eng_lower *lower, const struct eng_node *node,
                                               int64_t axis, uint32_t rank, uint32_t *out);
// Numpy broadcasting of two or more shapes. INVALID naming both.
BASE_NODISCARD enum base_status eng_lower_broadcast(struct eng_lower *lower,
                                                    const struct eng_node *node,
                                                    const uint32_t *tensors, uint32_t count,
                                                    struct eng_desc *out);

// --- what a handler produces
// ---------------------------------------------------------------------- Binds output i (ignored
// when the node leaves it out).
BASE_NODISCARD enum base_status eng_lower_output(struct eng_lower *lower,
                                                 const struct eng_node *node, uint32_t output,
                                                 uint32_t tensor);
BASE_NODISCARD enum base_status eng_lower_output_slot(struct eng_lower *lower,
                                                      const struct eng_node *node, uint32_t output,
                                                      const struct eng_slot *slot);
bool eng_lower_wants(const struct eng_lower *lower, const struct eng_node *node, uint32_t output);

// A constant; `data` is copied into the program's arena.
BASE_NODISCARD enum base_status eng_lower_const(struct eng_lower *lower,
                                                const struct eng_desc *desc, const void *data,
                                                uint32_t *out);
// A constant that lies in the model (a tensor attribute): not copied, and its packed forms are
// shared by its address, as an initializer's.
BASE_NODISCARD enum base_status eng_lower_model_const(struct eng_lower *lower,
                                                      const struct eng_desc *desc, const void *data,
                                                      uint32_t *out);
BASE_NODISCARD enum base_status eng_lower_const_f32(struct eng_lower *lower, enum eng_dtype dtype,
                                                    double value,
                                                    uint32_t *out); // scalar of that type
BASE_NODISCARD enum base_status eng_lower_const_ints(struct eng_lower *lower, const int64_t *values,
                                                     uint32_t count, uint32_t *out); // I64 [count]
// A tensor that owns `regions` (copied) over PLAIN physical layouts as returned by eng_lower_plain;
// sources may be virtual. Regions write no element twice; elements that none writes are zero.
BASE_NODISCARD enum base_status eng_lower_virtual(struct eng_lower *lower,
                                                  const struct eng_desc *desc,
                                                  const struct eng_region *regions, uint32_t count,
                                                  uint32_t *out);
// The same tensor in PLAIN layout (itself when it is).
BASE_NODISCARD enum base_status eng_lower_plain(struct eng_lower *lower, uint32_t tensor,
                                                uint32_t *out);
// The same for CHANNELS_LAST (rank 3 to 5).
BASE_NODISCARD enum base_status eng_lower_channels_last(struct eng_lower *lower, uint32_t tensor,
                                                        uint32_t *out);
// Makes a virtual tensor real (emits its RASTER or finds the one emitted); itself otherwise.
BASE_NODISCARD enum base_status eng_lower_real(struct eng_lower *lower, uint32_t tensor,
                                               uint32_t *out);

// Ready-made transforms: all virtual, all free until consumed.
BASE_NODISCARD enum base_status eng_lower_reshape(struct eng_lower *lower, uint32_t tensor,
                                                  const struct eng_desc *desc,
                                                  uint32_t *out); // same count; dtype of tensor
BASE_NODISCARD enum base_status eng_lower_transpose(struct eng_lower *lower, uint32_t tensor,
                                                    const uint32_t *perm, uint32_t *out);
// What a slice takes of each dim of a tensor: `size` elements from `start` on in steps of `step`
// (negative: backwards).
struct eng_slice {
    int64_t start[ENG_RANK_MAX], step[ENG_RANK_MAX], size[ENG_RANK_MAX];
};
// All of a tensor: what is taken less of is changed by the caller.
struct eng_slice eng_slice_whole(const struct eng_desc *desc);
BASE_NODISCARD enum base_status eng_lower_slice(struct eng_lower *lower, uint32_t tensor,
                                                const struct eng_slice *slice, uint32_t *out);
BASE_NODISCARD enum base_status eng_lower_concat(struct eng_lower *lower, const uint32_t *tensors,
                                                 uint32_t count, uint32_t axis, uint32_t *out);
BASE_NODISCARD enum base_status eng_lower_expand(struct eng_lower *lower, uint32_t tensor,
                                                 const struct eng_desc *desc, uint32_t *out);

// Atomic commands. Outputs are new TEMP tensors. Inputs may be virtual or of any layout. What is
// refused is refused with the name of the node being lowered.
BASE_NODISCARD enum base_status eng_emit_unary(struct eng_lower *lower,
                                               const struct eng_unary *unary, uint32_t input,
                                               uint32_t *out);
// Same dtypes; broadcasts.
BASE_NODISCARD enum base_status eng_emit_binary(struct eng_lower *lower, enum eng_binary_fn fn,
                                                uint32_t left, uint32_t right, uint32_t *out);
BASE_NODISCARD enum base_status eng_emit_select(struct eng_lower *lower, uint32_t cond,
                                                uint32_t left, uint32_t right, uint32_t *out);
BASE_NODISCARD enum base_status eng_emit_cast(struct eng_lower *lower, uint32_t input,
                                              enum eng_dtype to,
                                              uint32_t *out); // itself when equal
// What is reduced of a tensor, and how.
struct eng_reduction {
    enum eng_reduce_fn fn;
    const uint32_t *axes; // sorted, unique, in range
    uint32_t axis_count;  // 0 reduces nothing
    bool keep_dims;       // as ONNX: reduced dims stay, as 1
};
BASE_NODISCARD enum base_status eng_emit_reduce(struct eng_lower *lower,
                                                const struct eng_reduction *reduction,
                                                uint32_t input, uint32_t *out);
// The axes [begin, end) of a tensor.
struct eng_axis_range {
    uint32_t begin, end;
};
BASE_NODISCARD enum base_status eng_emit_softmax(struct eng_lower *lower, bool log, uint32_t input,
                                                 struct eng_axis_range axes, uint32_t *out);
// One side of a product of matrices.
struct eng_factor {
    uint32_t tensor; // of rank >= 2: vectors are reshaped by the caller
    bool transposed; // its last two dims are read swapped
};
// a [..., M, K] times b [..., K, N] times alpha, by the rules of numpy's matmul.
BASE_NODISCARD enum base_status eng_emit_matmul(struct eng_lower *lower, struct eng_factor left,
                                                struct eng_factor right, float alpha,
                                                uint32_t *out);
// conv->groups, kernel, stride... filled; of the epilogue only the bias is taken (any layout,
// ENG_NONE allowed). Output dims are computed.
BASE_NODISCARD enum base_status eng_emit_conv(struct eng_lower *lower, const struct eng_conv *conv,
                                              uint32_t input, uint32_t weights, uint32_t *out);
BASE_NODISCARD enum base_status eng_emit_pool(struct eng_lower *lower, const struct eng_pool *pool,
                                              const int64_t *out_spatial, uint32_t input,
                                              uint32_t *out);
// The same with a second output, I64: where each element of the first was found. MAX only.
BASE_NODISCARD enum base_status eng_emit_pool_indices(struct eng_lower *lower,
                                                      const struct eng_pool *pool,
                                                      const int64_t *out_spatial, uint32_t input,
                                                      uint32_t out[2]);
// Along one axis: output dims = data dims with `axis` replaced by the indices' dims.
BASE_NODISCARD enum base_status eng_emit_gather(struct eng_lower *lower, uint32_t data,
                                                uint32_t indices, uint32_t axis, uint32_t *out);
// Anything else: `command` carries op, inputs, the number of outputs, box, views, u; it and what
// it points at are copied. Inputs are made real and PLAIN, outputs created from `out_descs`, whose
// numbers land in `out`: one of each for every output.
BASE_NODISCARD enum base_status eng_emit(struct eng_lower *lower, const struct eng_command *command,
                                         const struct eng_desc *out_descs, uint32_t *out);

// Runs a subgraph on known contents and returns contents: what Loop, Scan, SequenceMap do per
// iteration. inputs are slots in order of graph->inputs; captures are read from `l`'s values and
// must be known (BUSY otherwise). Outputs are constants of `l`.
BASE_NODISCARD enum base_status eng_lower_call(struct eng_lower *lower, const struct eng_node *node,
                                               const struct eng_graph *graph,
                                               const struct eng_slot *inputs,
                                               struct eng_slot *outputs);
// Lowers a subgraph in place (If with a known condition, function bodies): no contents needed.
BASE_NODISCARD enum base_status eng_lower_inline(struct eng_lower *lower,
                                                 const struct eng_node *node,
                                                 const struct eng_graph *graph,
                                                 const struct eng_slot *inputs,
                                                 struct eng_slot *outputs);

// --- for the session and the trainer
// --------------------------------------------------------------
// Which tensors of a program are computed at once, and where their contents go.
struct eng_contents {
    const uint32_t *tensors;
    uint32_t count;
    struct eng_array *arrays; // as many: filled in
    struct base_arena *arena; // memory of their elements
};

struct eng_lower_options {
    bool no_merge;
    bool params;       // float initializers become PARAM tensors
    const bool *fixed; // with params: by value of the graph, those that stay constants; NULL: none
    // When set, BatchNormalization of the main graph uses the statistics of its batch; by value of
    // the graph, of its running statistics: the tensor with what they become is filled in.
    uint32_t *statistics;
    bool keep_values; // every graph value stays readable: no dead-code removal, is_output set on
                      // each
    uint64_t seed;    // of Random* operators without a seed attribute
    // Executes a program whose inputs are all constants (folding) or a subgraph (calls).
    void *runner_ctx;
    enum base_status (*run_program)(void *ctx, struct eng_program *program,
                                    const struct eng_contents *wanted, struct base_error *error);
    struct eng_look look; // asked before each node; what is not OK ends the lowering
};

// Lowering state in `arena`; NULL: out of memory. `program`, `graph`, `options` and `error` (NULL
// allowed) are kept. Initializers bind themselves when first read; everything else that nodes from
// `first` on read is bound by the caller, segment after segment.
struct eng_lower *eng_lower_new(struct base_arena *arena, struct eng_program *program,
                                const struct eng_graph *graph,
                                const struct eng_lower_options *options, struct base_error *error);
// Binds a value to PLAIN contents supplied at run time (known == NULL) or known now.
BASE_NODISCARD enum base_status eng_lower_bind(struct eng_lower *lower, uint32_t value,
                                               const struct eng_desc *desc, const void *known,
                                               uint32_t *out_tensor);
BASE_NODISCARD enum base_status eng_lower_bind_slot(struct eng_lower *lower, uint32_t value,
                                                    const struct eng_slot *slot);
// Lowers nodes [first, node_count). OK: all done, *out_next = node_count. BUSY: stopped before
// *out_next; eng_lower_wanted lists the tensors whose contents it needs.
BASE_NODISCARD enum base_status eng_lower_run(struct eng_lower *lower, uint32_t first,
                                              uint32_t *out_next);
const uint32_t *eng_lower_wanted(const struct eng_lower *lower, uint32_t *out_count);
const struct eng_slot *eng_lower_value(const struct eng_lower *lower,
                                       uint32_t value); // NULL: not bound

#endif
