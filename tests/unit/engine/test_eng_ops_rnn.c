// RNN, GRU and LSTM against a loop over time written from the formulas of the specification: random
// directions, lengths, biases, peepholes, activations, clips and layouts.
#include "op_rig.h"

enum kind { SIMPLE, GRU, LSTM };

struct setup {
    enum kind kind;
    int directions; // 1 or 2
    bool reversed;  // of a single direction
    int64_t steps, batch, input, hidden, gates;
    bool has_bias, has_lengths, has_h, has_c, has_peepholes, batch_first, linear, coupled, constant;
    float clip; // 0: none
    bool other_activations;
    float *x, *w, *r, *b, *h, *c, *p;
    int32_t lengths[4];
    double *y, *y_h, *y_c;
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

// Activation `which` of a direction. The other set: HardSigmoid(alpha, beta), Affine(alpha, beta),
// ScaledTanh(alpha, beta), the same numbers for all directions.
static double activate(const struct setup *s, int which, double x)
{
    if (s->clip > 0 && which >= 0) {
        x = x > (double)s->clip ? (double)s->clip : x < (double)-s->clip ? (double)-s->clip : x;
    }
    which = which < 0 ? 2 : which; // the last one of LSTM is not clipped
    if (s->kind == SIMPLE) {
        which++; // its only activation is the second kind
    }
    if (!s->other_activations) {
        return which == 0 ? sigmoid(x) : tanh(x);
    }
    switch (which) {
    case 0:
        x = 0.3 * x + 0.4;
        return x < 0 ? 0 : x > 1 ? 1 : x;
    case 1:
        return 0.5 * x + 0.1;
    default:
        return 0.8 * tanh(0.7 * x);
    }
}

struct place {
    int64_t d, n; // direction, sequence of the batch
};

static double dot(const float *row, const double *v, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)row[i] * v[i];
    }
    return sum;
}

// What input and state add to gate g, unit j. Biases: w's, then r's.
static double from_input(const struct setup *s, struct place at, const double *x, int64_t g,
                         int64_t j)
{
    int64_t rows = s->gates * s->hidden;
    int64_t row = g * s->hidden + j;
    double bias = s->has_bias ? (double)s->b[at.d * 2 * rows + row] : 0;
    return dot(s->w + (at.d * rows + row) * s->input, x, s->input) + bias;
}

static double from_state(const struct setup *s, struct place at, const double *h, int64_t g,
                         int64_t j)
{
    int64_t rows = s->gates * s->hidden;
    int64_t row = g * s->hidden + j;
    double bias = s->has_bias ? (double)s->b[at.d * 2 * rows + rows + row] : 0;
    return dot(s->r + (at.d * rows + row) * s->hidden, h, s->hidden) + bias;
}

static void step(const struct setup *s, struct place at, const double *x, double *h, double *c)
{
    double next[8];
    double reset[8];
    for (int64_t j = 0; j < s->hidden && s->kind == GRU; j++) {
        reset[j] = activate(s, 0, from_input(s, at, x, 1, j) + from_state(s, at, h, 1, j));
    }
    double gated[8];
    for (int64_t j = 0; j < s->hidden && s->kind == GRU; j++) {
        gated[j] = reset[j] * h[j];
    }
    for (int64_t j = 0; j < s->hidden; j++) {
        if (s->kind == SIMPLE) {
            next[j] = activate(s, 0, from_input(s, at, x, 0, j) + from_state(s, at, h, 0, j));
        } else if (s->kind == GRU) {
            double z = activate(s, 0, from_input(s, at, x, 0, j) + from_state(s, at, h, 0, j));
            double state =
                s->linear ? reset[j] * from_state(s, at, h, 2, j) : from_state(s, at, gated, 2, j);
            double candidate = activate(s, 1, from_input(s, at, x, 2, j) + state);
            next[j] = (1 - z) * candidate + z * h[j];
        } else {
            const float *p = s->p + at.d * 3 * s->hidden + j;
            double peep_i = s->has_peepholes ? (double)p[0] * c[j] : 0;
            double peep_f = s->has_peepholes ? (double)p[2 * s->hidden] * c[j] : 0;
            double i =
                activate(s, 0, from_input(s, at, x, 0, j) + from_state(s, at, h, 0, j) + peep_i);
            double f =
                activate(s, 0, from_input(s, at, x, 2, j) + from_state(s, at, h, 2, j) + peep_f);
            double g = activate(s, 1, from_input(s, at, x, 3, j) + from_state(s, at, h, 3, j));
            c[j] = (s->coupled ? 1 - i : f) * c[j] + i * g;
            double peep_o = s->has_peepholes ? (double)p[s->hidden] * c[j] : 0;
            double o =
                activate(s, 0, from_input(s, at, x, 1, j) + from_state(s, at, h, 1, j) + peep_o);
            next[j] = o * activate(s, -1, c[j]);
        }
    }
    memcpy(h, next, (size_t)s->hidden * sizeof *h);
}

static int64_t index_of(const struct setup *s, int64_t t, int64_t d, int64_t n)
{
    // Y is [steps, directions, batch, hidden] or, batch first, [batch, steps, directions, hidden].
    return s->batch_first ? ((n * s->steps + t) * s->directions + d) * s->hidden
                          : ((t * s->directions + d) * s->batch + n) * s->hidden;
}

static int64_t state_of(const struct setup *s, int64_t d, int64_t n)
{
    return (s->batch_first ? n * s->directions + d : d * s->batch + n) * s->hidden;
}

static void naive_sequence(const struct setup *s, struct place at)
{
    double h[8];
    double c[8];
    int64_t length = s->has_lengths ? s->lengths[at.n] : s->steps;
    bool backwards = at.d == 1 || s->reversed;
    for (int64_t j = 0; j < s->hidden; j++) {
        h[j] = s->has_h ? (double)s->h[state_of(s, at.d, at.n) + j] : 0;
        c[j] = s->has_c ? (double)s->c[state_of(s, at.d, at.n) + j] : 0;
    }
    for (int64_t i = 0; i < length; i++) {
        int64_t t = backwards ? length - 1 - i : i;
        double x[8];
        const float *from =
            s->x + (s->batch_first ? at.n * s->steps + t : t * s->batch + at.n) * s->input;
        for (int64_t k = 0; k < s->input; k++) {
            x[k] = (double)from[k];
        }
        step(s, at, x, h, c);
        memcpy(s->y + index_of(s, t, at.d, at.n), h, (size_t)s->hidden * sizeof *h);
    }
    memcpy(s->y_h + state_of(s, at.d, at.n), h, (size_t)s->hidden * sizeof *h);
    memcpy(s->y_c + state_of(s, at.d, at.n), c, (size_t)s->hidden * sizeof *c);
}

static bool coin(struct base_prng *prng)
{
    return base_prng_below(prng, 2) == 1;
}

static struct setup random_setup(struct base_prng *prng, int round)
{
    static const int64_t gates[3] = {1, 3, 4};
    struct setup s = {.kind = (enum kind)(round % 3)};
    s.directions = coin(prng) ? 2 : 1;
    s.reversed = s.directions == 1 && coin(prng);
    s.steps = 1 + (int64_t)base_prng_below(prng, 5);
    s.batch = 1 + (int64_t)base_prng_below(prng, 3);
    s.input = 1 + (int64_t)base_prng_below(prng, 6);
    s.hidden = 1 + (int64_t)base_prng_below(prng, 6);
    s.gates = gates[s.kind];
    s.has_bias = coin(prng);
    s.has_lengths = coin(prng);
    s.has_h = coin(prng);
    s.has_c = s.kind == LSTM && coin(prng);
    s.has_peepholes = s.kind == LSTM && coin(prng);
    s.batch_first = coin(prng);
    s.linear = s.kind == GRU && coin(prng);
    s.coupled = s.kind == LSTM && base_prng_below(prng, 4) == 0;
    s.constant = coin(prng);
    s.clip = base_prng_below(prng, 3) == 0 ? 0.4f : 0;
    s.other_activations = coin(prng);
    int64_t rows = s.directions * s.gates * s.hidden;
    s.x = op_random(prng, s.steps * s.batch * s.input);
    s.w = op_random(prng, rows * s.input);
    s.r = op_random(prng, rows * s.hidden);
    s.b = op_random(prng, 2 * rows);
    s.h = op_random(prng, s.directions * s.batch * s.hidden);
    s.c = op_random(prng, s.directions * s.batch * s.hidden);
    s.p = op_random(prng, s.directions * 3 * s.hidden);
    for (int64_t n = 0; n < s.batch; n++) {
        s.lengths[n] = (int32_t)base_prng_below(prng, (uint64_t)s.steps + 1);
    }
    int64_t states = s.directions * s.batch * s.hidden;
    s.y = calloc((size_t)(s.steps * states), sizeof *s.y);
    s.y_h = calloc((size_t)states, sizeof *s.y_h);
    s.y_c = calloc((size_t)states, sizeof *s.y_c);
    assert_true(s.y != NULL && s.y_h != NULL && s.y_c != NULL);
    return s;
}

static void free_setup(struct setup *s)
{
    void *const all[] = {s->x, s->w, s->r, s->b, s->h, s->c, s->p, s->y, s->y_h, s->y_c};
    for (size_t i = 0; i < TEST_COUNT(all); i++) {
        free(all[i]);
    }
}

static void attributes(struct op_rig *rig, const struct setup *s)
{
    static const char *const names[6] = {"hardsigmoid", "Affine", "ScaledTanh",
                                         "HardSigmoid", "Affine", "ScaledTanh"};
    static const float alphas[6] = {0.3f, 0.5f, 0.8f, 0.3f, 0.5f, 0.8f};
    static const float betas[6] = {0.4f, 0.1f, 0.7f, 0.4f, 0.1f, 0.7f};
    const char *chosen[6];
    float alpha[6];
    float beta[6];
    size_t count = 0;
    size_t per = (size_t)s->kind + 1;
    for (size_t d = 0; d < (size_t)s->directions; d++) {
        for (size_t i = 0; i < per; i++) {
            size_t which = d * 3 + (s->kind == SIMPLE ? 1 : i);
            chosen[count] = names[which];
            alpha[count] = alphas[which];
            beta[count++] = betas[which];
        }
    }
    op_attr_text(rig, "direction",
                 s->directions == 2 ? "bidirectional"
                 : s->reversed      ? "reverse"
                                    : "forward");
    op_attr_int(rig, "hidden_size", s->hidden);
    op_attr_int(rig, "layout", s->batch_first);
    if (s->other_activations) {
        op_attr_strings(rig, "activations", chosen, count);
        op_attr_floats(rig, "activation_alpha", alpha, count);
        op_attr_floats(rig, "activation_beta", beta, count);
    }
    if (s->clip > 0) {
        op_attr_float(rig, "clip", s->clip);
    }
    if (s->linear) {
        op_attr_int(rig, "linear_before_reset", 1);
    }
    if (s->coupled) {
        op_attr_int(rig, "input_forget", 1);
    }
}

static struct op_rig *make(const struct setup *s)
{
    static const char *const ops[3] = {"RNN", "GRU", "LSTM"};
    char names[64];
    int64_t rows = s->gates * s->hidden;
    (void)snprintf(names, sizeof names, "x w r %s %s %s%s", s->has_bias ? "b" : "-",
                   s->has_lengths ? "l" : "-", s->has_h ? "h" : "-",
                   s->kind != LSTM                ? ""
                   : s->has_c && s->has_peepholes ? " c p"
                   : s->has_c                     ? " c"
                   : s->has_peepholes             ? " - p"
                                                  : "");
    struct op_rig *rig = op_named(ops[s->kind], names, s->kind == LSTM ? "y yh yc" : "y yh");
    attributes(rig, s);
    struct eng_array x = op_floats(s->x, s->batch_first ? s->batch : s->steps,
                                   s->batch_first ? s->steps : s->batch, s->input);
    struct eng_array w = op_floats(s->w, s->directions, rows, s->input);
    struct eng_array r = op_floats(s->r, s->directions, rows, s->hidden);
    struct eng_array b = op_floats(s->b, s->directions, 2 * rows);
    struct eng_array p = op_floats(s->p, s->directions, 3 * s->hidden);
    struct eng_array l = op_of(ENG_I32, s->lengths, s->batch);
    int64_t first = s->batch_first ? s->batch : s->directions;
    int64_t second = s->batch_first ? s->directions : s->batch;
    struct eng_array h = op_floats(s->h, first, second, s->hidden);
    struct eng_array c = op_floats(s->c, first, second, s->hidden);
    op_feed(rig, "x", &x);
    (s->constant ? op_constant : op_feed)(rig, "w", &w);
    (s->constant ? op_constant : op_feed)(rig, "r", &r);
    if (s->has_bias) {
        (s->constant ? op_constant : op_feed)(rig, "b", &b);
    }
    if (s->has_lengths) {
        op_feed(rig, "l", &l);
    }
    if (s->has_h) {
        op_feed(rig, "h", &h);
    }
    if (s->has_c) {
        op_feed(rig, "c", &c);
    }
    if (s->has_peepholes) {
        op_feed(rig, "p", &p);
    }
    return rig;
}

static void random_layers(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 41);
    print_message("seed 41\n");
    for (int round = 0; round < 120; round++) {
        struct setup s = random_setup(&prng, round);
        for (int64_t i = 0; i < s.directions * s.batch; i++) {
            naive_sequence(&s, (struct place){i / s.batch, i % s.batch});
        }
        struct op_rig *rig = make(&s);
        op_run_at(rig, 14);
        struct eng_array y = op_output(rig, 0);
        struct eng_array y_h = op_output(rig, 1);
        int64_t states = s.directions * s.batch * s.hidden;
        if (s.batch_first) {
            op_same_shape(&y, ENG_F32, OP_DIMS(s.batch, s.steps, s.directions, s.hidden));
            op_same_shape(&y_h, ENG_F32, OP_DIMS(s.batch, s.directions, s.hidden));
        } else {
            op_same_shape(&y, ENG_F32, OP_DIMS(s.steps, s.directions, s.batch, s.hidden));
            op_same_shape(&y_h, ENG_F32, OP_DIMS(s.directions, s.batch, s.hidden));
        }
        op_near(&y, s.y, s.steps * states, 1e-5);
        op_near(&y_h, s.y_h, states, 1e-5);
        if (s.kind == LSTM) {
            struct eng_array y_c = op_output(rig, 2);
            op_near(&y_c, s.y_c, states, 1e-5);
        }
        op_done(rig);
        free_setup(&s);
    }
}

static struct op_rig *small(const char *attribute, const char *value, int64_t r_rows)
{
    static const float data[64];
    struct op_rig *rig = op_named("RNN", "x w r", "y");
    if (attribute != NULL && strcmp(attribute, "activations") == 0) {
        op_attr_strings(rig, attribute, &value, 1);
    } else if (attribute != NULL) {
        op_attr_text(rig, attribute, value);
    }
    struct eng_array x = op_floats(data, 2, 1, 3);
    struct eng_array w = op_floats(data, 1, 4, 3);
    struct eng_array r = op_floats(data, 1, r_rows, 4);
    op_feed(rig, "x", &x);
    op_feed(rig, "w", &w);
    op_feed(rig, "r", &r);
    return rig;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    op_refused(small("direction", "sideways", 4), 14, BASE_ERR_INVALID, "sideways");
    op_refused(small("activations", "Mish", 4), 14, BASE_ERR_UNSUPPORTED, "Mish");
    op_refused(small(NULL, NULL, 8), 14, BASE_ERR_INVALID, "expected float[1,4,4]");
    op_refused(small("direction", "bidirectional", 4), 14, BASE_ERR_INVALID, "expected float[2,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layers),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
