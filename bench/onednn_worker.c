// Benchmark worker that runs one layer in oneDNN (onednn_worker WEIGHTS INPUTS STRIDE).
// Protocol: worker_io.h. WEIGHTS and INPUTS are folders as worker_read_inputs takes them: `w` and
// `b`; and `x`. A `w` of rank 4 (out, in, height, width) makes it a convolution of x (batch,
// height, width, channels) with padding of half the kernel, the bias and ReLU behind it; one of
// rank 2 (in, out) a product of x (rows, in) with the bias.
//
// oneDNN gets what it does best: weights, input and output lie as it likes before a run begins and
// after it ends, weights are its own copy, and of its algorithms and formats (below) the one that
// is fastest here is taken. It computes in float32: its math mode is strict. Its threads are
// OpenMP's: OMP_NUM_THREADS says how many.
#include "worker_io.h"

#include <dnnl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIAL_RUNS 20

enum role { SRC, WEIGHTS, BIAS, DST, ROLES };
static const int ARGS[ROLES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
static const dnnl_query_t QUERIES[ROLES] = {dnnl_query_src_md, dnnl_query_weights_md,
                                            dnnl_query_weights_md, dnnl_query_dst_md};

// One way to compute the layer, ready to run.
struct way {
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[ROLES];
    double us; // the best of its trial runs
};

struct layer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;
    dnnl_dims_t dims[ROLES]; // as oneDNN names them: channels before pixels
    int ranks[ROLES];
    dnnl_memory_desc_t plain[ROLES]; // how our data lie
    void *data[ROLES];
    size_t out_bytes;
    int64_t stride;
    struct way way;
};

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        worker_fail("oneDNN, %s: %d", what, (int)status);
    }
}

static const struct worker_input *find(const struct worker *worker, const char *name)
{
    for (size_t i = 0; i < worker->input_count; i++) {
        if (strcmp(worker->inputs[i].name, name) == 0) {
            return &worker->inputs[i];
        }
    }
    worker_fail("no input %s", name);
}

static void set_dims(struct layer *layer, enum role role, int rank, const int64_t dims[4])
{
    layer->ranks[role] = rank;
    memcpy(layer->dims[role], dims, (size_t)rank * sizeof *dims);
}

static void read_conv(struct layer *layer, const struct worker_input *x,
                      const struct worker_input *w)
{
    const int64_t out_height = (x->dims[1] - 1) / layer->stride + 1;
    const int64_t out_width = (x->dims[2] - 1) / layer->stride + 1;
    set_dims(layer, SRC, 4, (int64_t[]){x->dims[0], x->dims[3], x->dims[1], x->dims[2]});
    set_dims(layer, WEIGHTS, 4, w->dims);
    set_dims(layer, BIAS, 1, (int64_t[]){w->dims[0], 0, 0, 0});
    set_dims(layer, DST, 4, (int64_t[]){x->dims[0], w->dims[0], out_height, out_width});
}

static void read_product(struct layer *layer, const struct worker_input *x,
                         const struct worker_input *w)
{
    set_dims(layer, SRC, 2, x->dims);
    set_dims(layer, WEIGHTS, 2, w->dims);
    set_dims(layer, BIAS, 2, (int64_t[]){1, w->dims[1], 0, 0});
    set_dims(layer, DST, 2, (int64_t[]){x->dims[0], w->dims[1], 0, 0});
}

static bool is_conv(const struct layer *layer)
{
    return layer->ranks[WEIGHTS] == 4;
}

static void read_layer(struct layer *layer, const struct worker *inputs,
                       const struct worker *weights)
{
    static const dnnl_format_tag_t conv_tags[ROLES] = {dnnl_nhwc, dnnl_oihw, dnnl_a, dnnl_nhwc};
    const struct worker_input *x = find(inputs, "x");
    const struct worker_input *w = find(weights, "w");
    const struct worker_input *b = find(weights, "b");
    if (w->rank == 4) {
        read_conv(layer, x, w);
    } else {
        read_product(layer, x, w);
    }
    layer->out_bytes = sizeof(float);
    for (int i = 0; i < layer->ranks[DST]; i++) {
        layer->out_bytes *= (size_t)layer->dims[DST][i];
    }
    layer->data[SRC] = x->data;
    layer->data[WEIGHTS] = w->data;
    layer->data[BIAS] = b->data;
    layer->data[DST] = malloc(layer->out_bytes);
    for (int role = 0; role < ROLES; role++) {
        check(dnnl_memory_desc_init_by_tag(&layer->plain[role], layer->ranks[role],
                                           layer->dims[role], dnnl_f32,
                                           is_conv(layer) ? conv_tags[role] : dnnl_ab),
              "a description");
    }
}

static void start(struct layer *layer)
{
    dnnl_post_ops_t after;
    check(dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict), "math mode");
    check(dnnl_engine_create(&layer->engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&layer->stream, layer->engine, dnnl_stream_default_flags), "stream");
    check(dnnl_primitive_attr_create(&layer->attr), "attributes");
    check(dnnl_post_ops_create(&after), "what follows");
    if (is_conv(layer)) {
        check(dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F), "ReLU");
    }
    check(dnnl_primitive_attr_set_post_ops(layer->attr, after), "what follows");
    check(dnnl_post_ops_destroy(after), "what follows");
}

// Copies between two forms of the same tensor.
static void reorder(struct layer *layer, dnnl_memory_t from, dnnl_memory_t into)
{
    const dnnl_memory_desc_t *sides[2];
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    check(dnnl_memory_get_memory_desc(from, &sides[0]), "a reorder");
    check(dnnl_memory_get_memory_desc(into, &sides[1]), "a reorder");
    check(dnnl_reorder_primitive_desc_create(&description, sides[0], layer->engine, sides[1],
                                             layer->engine, NULL),
          "a reorder");
    check(dnnl_primitive_create(&primitive, description), "a reorder");
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, into}};
    check(dnnl_primitive_execute(primitive, layer->stream, 2, args), "a reorder");
    check(dnnl_stream_wait(layer->stream), "a reorder");
    check(dnnl_primitive_destroy(primitive), "a reorder");
    check(dnnl_primitive_desc_destroy(description), "a reorder");
}

static void way_run(const struct layer *layer, const struct way *way)
{
    dnnl_exec_arg_t args[ROLES];
    for (int role = 0; role < ROLES; role++) {
        args[role] = (dnnl_exec_arg_t){ARGS[role], way->memories[role]};
    }
    check(dnnl_primitive_execute(way->primitive, layer->stream, ROLES, args), "a run");
    check(dnnl_stream_wait(layer->stream), "a run");
}

static void way_free(struct way *way)
{
    if (way->primitive != NULL) {
        check(dnnl_primitive_destroy(way->primitive), "an end");
        for (int role = 0; role < ROLES; role++) {
            check(dnnl_memory_destroy(way->memories[role]), "an end");
        }
    }
}

// Memory in the forms the primitive asks for, our data copied into it; and how long a run takes.
static void way_make(struct layer *layer, dnnl_primitive_desc_t description, struct way *out)
{
    for (int role = 0; role < ROLES; role++) {
        const dnnl_memory_desc_t *wanted =
            dnnl_primitive_desc_query_md(description, QUERIES[role], role == BIAS ? 1 : 0);
        dnnl_memory_t plain;
        check(dnnl_memory_create(&out->memories[role], wanted, layer->engine, DNNL_MEMORY_ALLOCATE),
              "memory");
        check(dnnl_memory_create(&plain, &layer->plain[role], layer->engine, layer->data[role]),
              "memory");
        if (role != DST) {
            reorder(layer, plain, out->memories[role]);
        }
        check(dnnl_memory_destroy(plain), "memory");
    }
    check(dnnl_primitive_create(&out->primitive, description), "a primitive");
    out->us = 1e30;
    for (int i = 0; i < TRIAL_RUNS; i++) {
        uint64_t begin = worker_now_us();
        way_run(layer, out);
        double us = (double)(worker_now_us() - begin);
        out->us = us < out->us ? us : out->us;
    }
}

// Takes the way instead of the layer's when it is faster; one that oneDNN does not have is left.
static void consider(struct layer *layer, const_dnnl_op_desc_t operation)
{
    dnnl_primitive_desc_t description;
    struct way way = {0};
    if (dnnl_primitive_desc_create(&description, operation, layer->attr, layer->engine, NULL) !=
        dnnl_success) {
        return;
    }
    way_make(layer, description, &way);
    check(dnnl_primitive_desc_destroy(description), "a description");
    if (layer->way.primitive == NULL || way.us < layer->way.us) {
        struct way other = layer->way;
        layer->way = way;
        way = other;
    }
    way_free(&way);
}

static dnnl_memory_desc_t as_it_likes(const struct layer *layer, enum role role)
{
    dnnl_memory_desc_t description = layer->plain[role];
    description.format_kind = dnnl_format_kind_any;
    return description;
}

// Directly or as it chooses (which may be Winograd's), channels in blocks or last.
static void consider_convs(struct layer *layer)
{
    static const dnnl_alg_kind_t algorithms[] = {dnnl_convolution_direct, dnnl_convolution_winograd,
                                                 dnnl_convolution_auto};
    const int64_t half = layer->dims[WEIGHTS][2] / 2;
    const dnnl_dims_t strides = {layer->stride, layer->stride};
    const dnnl_dims_t pads = {half, half};
    dnnl_dims_t ends = {0};
    for (int i = 0; i < 2; i++) { // what the stride leaves over is not padded
        ends[i] = (layer->dims[DST][2 + i] - 1) * layer->stride + layer->dims[WEIGHTS][2 + i] -
                  layer->dims[SRC][2 + i] - half;
    }
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        for (int last = 0; last < 2; last++) {
            const dnnl_memory_desc_t weights = as_it_likes(layer, WEIGHTS);
            const dnnl_memory_desc_t src = last != 0 ? layer->plain[SRC] : as_it_likes(layer, SRC);
            const dnnl_memory_desc_t dst = last != 0 ? layer->plain[DST] : as_it_likes(layer, DST);
            dnnl_convolution_desc_t conv;
            if (dnnl_convolution_forward_desc_init(&conv, dnnl_forward_inference, algorithms[i],
                                                   &src, &weights, &layer->plain[BIAS], &dst,
                                                   strides, pads, ends) == dnnl_success) {
                consider(layer, &conv);
            }
        }
    }
}

static void consider_products(struct layer *layer)
{
    for (int likes = 0; likes < 2; likes++) {
        const dnnl_memory_desc_t weights = as_it_likes(layer, WEIGHTS);
        const dnnl_memory_desc_t src = likes != 0 ? as_it_likes(layer, SRC) : layer->plain[SRC];
        const dnnl_memory_desc_t dst = likes != 0 ? as_it_likes(layer, DST) : layer->plain[DST];
        dnnl_matmul_desc_t product;
        check(dnnl_matmul_desc_init(&product, &src, &weights, &layer->plain[BIAS], &dst),
              "a product");
        consider(layer, &product);
    }
}

static int run(void *ctx)
{
    struct layer *layer = ctx;
    way_run(layer, &layer->way);
    return 0;
}

static const void *output(void *ctx, size_t index, size_t *out_bytes)
{
    struct layer *layer = ctx;
    dnnl_memory_t plain;
    if (index != 0) {
        return NULL;
    }
    check(dnnl_memory_create(&plain, &layer->plain[DST], layer->engine, layer->data[DST]),
          "memory");
    reorder(layer, layer->way.memories[DST], plain);
    check(dnnl_memory_destroy(plain), "memory");
    *out_bytes = layer->out_bytes;
    return layer->data[DST];
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: onednn_worker WEIGHTS INPUTS STRIDE\n");
        return 64;
    }
    static struct layer layer;
    static struct worker weights;
    static struct worker worker;
    char version[32];
    worker_read_inputs(&weights, argv[1]);
    worker_read_inputs(&worker, argv[2]);
    layer.stride = (int64_t)worker_number(argv[3], strlen(argv[3]));
    uint64_t begin = worker_now_us();
    read_layer(&layer, &worker, &weights);
    start(&layer);
    if (is_conv(&layer)) {
        consider_convs(&layer);
    } else {
        consider_products(&layer);
    }
    if (layer.way.primitive == NULL) {
        worker_fail("oneDNN has no primitive for the layer");
    }
    uint64_t load_us = worker_now_us() - begin;
    const dnnl_version_t *numbers = dnnl_version();
    snprintf(version, sizeof version, "%d.%d.%d", numbers->major, numbers->minor, numbers->patch);
    worker.ctx = &layer;
    worker.run = run;
    worker.output = output;
    worker.extra = version;
    worker_serve(&worker, load_us);
    way_free(&layer.way);
    check(dnnl_primitive_attr_destroy(layer.attr), "an end");
    check(dnnl_stream_destroy(layer.stream), "an end");
    check(dnnl_engine_destroy(layer.engine), "an end");
    free(layer.data[DST]);
    return 0;
}
