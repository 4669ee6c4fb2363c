// walle.np.random: whole numbers, orders and choices. Bounds, errors and the order of draws are
// those of NumPy's RandomState: the same seed gives the same numbers. Called by scripts through the
// module's table, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_draws.h"
#include "vm/np/np_index.h"
#include "vm/np/np_math.h"
#include "vm/np/np_random.h"

#include "py/objint.h"

#include <math.h>
#include <string.h>

// --- randint

// Numbers from `from` on, `most` steps up at most; the sum is in the type's range.
struct range {
    uint64_t from;
    uint64_t most;
};

static const int64_t lowest[NP_F32] = {0, 0, INT32_MIN, INT64_MIN, 0};
static const uint64_t highest[NP_F32] = {1, UINT8_MAX, INT32_MAX, INT64_MAX, UINT64_MAX};

// A bound as 64 bits, and whether it is below 0. Reals are cut.
static uint64_t bound_of(mp_obj_t value, bool *out_negative)
{
    const struct np_array *given = dev_np_of(value);
    if (given->size != 1) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np.random: a bound of randint is one number"));
    }
    uint64_t bits = 0;
    enum np_type type = given->type == NP_U64 ? NP_U64 : NP_I64;
    dev_np_set(type, &bits, dev_np_get(given->type, given->data));
    *out_negative = type == NP_I64 && bits >> 63 != 0;
    return bits;
}

static struct range range_of(enum np_type type, mp_obj_t low, mp_obj_t high)
{
    bool low_negative, high_negative;
    uint64_t from = bound_of(low, &low_negative);
    uint64_t behind = bound_of(high, &high_negative);
    if (low_negative ? (int64_t)from < lowest[type] : from > highest[type]) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: low is out of bounds of the type"));
    }
    if (!high_negative && behind > 0 && behind - 1 > highest[type]) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: high is out of bounds of the type"));
    }
    bool is_less = low_negative != high_negative ? low_negative : from < behind;
    if (!is_less) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: low >= high"));
    }
    return (struct range){from, behind - 1 - from};
}

// Draws of a byte or a bit come out of one word until it is used up.
struct bits {
    uint32_t word;
    uint32_t left;
};

static uint32_t bits_next(struct bits *bits, struct np_draws *draws, uint32_t size)
{
    if (bits->left == 0) {
        bits->word = dev_np_draw_u32(draws);
        bits->left = 32 / size;
    } else {
        bits->word >>= size;
    }
    bits->left--;
    return bits->word & ((1U << size) - 1);
}

static uint64_t narrow_draw(struct bits *bits, struct np_draws *draws, uint64_t most, uint32_t size)
{
    if (most == 0) {
        return 0;
    }
    uint32_t mask = UINT32_MAX >> __builtin_clz((uint32_t)most);
    uint32_t drawn;
    do {
        drawn = bits_next(bits, draws, size) & mask;
    } while (drawn > most);
    return drawn;
}

static void whole_fill(struct np_array *to, const struct range *range)
{
    struct np_draws *draws = dev_np_draws();
    struct bits bits = {0, 0};
    uint8_t *at = to->data;
    size_t item = dev_np_item(to->type);
    for (size_t i = 0; i < to->size; i++, at += item) {
        uint64_t up = item == 1
                          ? narrow_draw(&bits, draws, range->most, to->type == NP_BOOL ? 1 : 8)
                          : dev_np_draw_up_to(draws, range->most);
        uint64_t value = range->from + up;
        if (item == 1) {
            *at = (uint8_t)value;
        } else if (item == 4) {
            *(uint32_t *)(void *)at = (uint32_t)value;
        } else {
            *(uint64_t *)(void *)at = value;
        }
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
    dev_np_pay(to->size % NP_CHUNK);
}

static mp_obj_t randint(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { LOW, HIGH, SIZE, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_low, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_high, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_PTR(&mp_type_int)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    bool is_one = values[HIGH].u_obj == mp_const_none;
    enum np_type type = dev_np_type_parse(values[DTYPE].u_obj);
    if (dev_np_is_real(type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np.random: randint is of whole numbers"));
    }
    struct np_array *made = dev_np_sized(type, values[SIZE].u_obj);
    if (made->size > 0) {
        struct range range = range_of(type, is_one ? MP_OBJ_NEW_SMALL_INT(0) : values[LOW].u_obj,
                                      is_one ? values[LOW].u_obj : values[HIGH].u_obj);
        whole_fill(made, &range);
    }
    return dev_np_result(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_randint_obj, 1, randint);

// --- orders

#define DRAWS 1024 // among sums, between two looks at the budget

static int64_t *indices_of(struct np_array *array)
{
    return (int64_t *)(void *)array->data;
}

// The indices below `count` in an order that is drawn from the last to the second.
static struct np_array *order_draw(int64_t count)
{
    struct np_array *order = dev_np_room(NP_I64, 1, &count);
    struct np_draws *draws = dev_np_draws();
    int64_t *items = indices_of(order);
    for (int64_t i = 0; i < count; i++) {
        items[i] = i;
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
    for (int64_t i = count - 1; i > 0; i--) {
        uint64_t with = dev_np_draw_up_to(draws, (uint64_t)i);
        int64_t moved = items[i];
        items[i] = items[with];
        items[with] = moved;
        if (i % NP_CHUNK == 0) {
            dev_np_pay(NP_CHUNK);
        }
    }
    return order;
}

// shuffle(x): in place, along the first dimension
static mp_obj_t shuffle(mp_obj_t x)
{
    if (mp_obj_is_exact_type(x, &dev_np_array_type)) {
        const struct np_array *array = MP_OBJ_TO_PTR(x);
        if (array->rank == 0) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.np.random: a number cannot be shuffled"));
        }
        if (array->is_read_only) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: the array is read-only"));
        }
        if (array->size > 0) {
            mp_obj_t order = MP_OBJ_FROM_PTR(order_draw(array->dims[0]));
            mp_obj_t made = dev_np_subscr(x, order, MP_OBJ_SENTINEL);
            dev_np_fill(array, MP_OBJ_TO_PTR(made));
        }
        return mp_const_none;
    }
    if (!mp_obj_is_exact_type(x, &mp_type_list)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np.random: an array or a list is shuffled"));
    }
    size_t count;
    mp_obj_t *items;
    mp_obj_get_array(x, &count, &items);
    struct np_draws *draws = dev_np_draws();
    for (size_t i = count; i-- > 1;) {
        uint64_t with = dev_np_draw_up_to(draws, i);
        mp_obj_t moved = items[i];
        items[i] = items[with];
        items[with] = moved;
        if (i % NP_CHUNK == 0) {
            dev_np_pay(NP_CHUNK);
        }
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_shuffle_obj, shuffle);

// permutation(x): a copy of it, or of the numbers below it
static mp_obj_t permutation(mp_obj_t x)
{
    if (mp_obj_is_int(x) || mp_obj_is_bool(x)) {
        mp_int_t count = mp_obj_get_int(x);
        return MP_OBJ_FROM_PTR(order_draw(count > 0 ? count : 0));
    }
    const struct np_array *array = dev_np_of(x);
    if (array->rank == 0) {
        mp_raise_msg(&mp_type_IndexError,
                     MP_ERROR_TEXT("walle.np.random: an int or an array is permuted"));
    }
    mp_obj_t order = MP_OBJ_FROM_PTR(order_draw(array->dims[0]));
    return dev_np_subscr(MP_OBJ_FROM_PTR(array), order, MP_OBJ_SENTINEL);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_permutation_obj, permutation);

// --- choice

// What is chosen from: how many, and with which chances.
struct choosing {
    int64_t count;
    struct np_array *chances; // NULL: all alike
    struct np_array *sums;    // of the chances up to each, of all together 1
};

static double *reals_of(struct np_array *array)
{
    return (double *)(void *)array->data;
}

static void chances_check(const struct choosing *choosing, enum np_type given)
{
    double sum = 0;
    double lost = 0; // in rounding
    const double *chances = reals_of(choosing->chances);
    for (int64_t i = 0; i < choosing->count; i++) {
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
        double part = chances[i] - lost;
        double next = sum + part;
        lost = (next - sum) - part;
        sum = next;
        if (chances[i] < 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: probabilities are not negative"));
        }
    }
    double margin = given == NP_F32 ? 3.4526698300124393e-04 : 1.4901161193847656e-08;
    if (!(fabs(sum - 1.0) <= margin)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: probabilities do not sum to 1"));
    }
}

static void chances_take(struct choosing *choosing, mp_obj_t p)
{
    bool is_array = mp_obj_is_exact_type(p, &dev_np_array_type);
    const struct np_array *given = dev_np_of(p);
    if (given->rank != 1 || given->dims[0] != choosing->count) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a and p must have the same size"));
    }
    choosing->chances = dev_np_cast(given, NP_F64);
    choosing->sums = dev_np_new(NP_F64, 1, given->dims);
    chances_check(choosing, is_array ? given->type : NP_F64);
}

static void sums_make(struct choosing *choosing)
{
    const double *chances = reals_of(choosing->chances);
    double *sums = reals_of(choosing->sums);
    double sum = 0;
    for (int64_t i = 0; i < choosing->count; i++) {
        sum = i == 0 ? chances[i] : sum + chances[i];
        sums[i] = sum;
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
    for (int64_t i = 0; i < choosing->count; i++) {
        sums[i] /= sum;
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
}

// The first whose sum is above the draw.
static int64_t chance_draw(struct choosing *choosing, struct np_draws *draws)
{
    const double *sums = reals_of(choosing->sums);
    double drawn = dev_np_draw_unit(draws);
    int64_t low = 0;
    int64_t count = choosing->count;
    while (count > 0) {
        int64_t half = count / 2;
        bool is_before = sums[low + half] <= drawn;
        low += is_before ? half + 1 : 0;
        count = is_before ? count - half - 1 : half;
    }
    return low;
}

static void chosen_again(struct choosing *choosing, struct np_array *to)
{
    struct np_draws *draws = dev_np_draws();
    int64_t *at = indices_of(to);
    sums_make(choosing);
    for (size_t i = 0; i < to->size; i++) {
        at[i] = chance_draw(choosing, draws);
        if (i % DRAWS == DRAWS - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
}

// Each at most once: as many are drawn as are missing, what was drawn before is left out.
static void chosen_once(struct choosing *choosing, struct np_array *to)
{
    struct np_draws *draws = dev_np_draws();
    double *chances = reals_of(choosing->chances);
    int64_t *at = indices_of(to);
    size_t possible = 0;
    for (int64_t i = 0; i < choosing->count; i++) {
        possible += chances[i] > 0;
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay(NP_CHUNK);
        }
    }
    if (possible < to->size) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: fewer probabilities than draws"));
    }
    for (size_t done = 0; done < to->size;) {
        sums_make(choosing);
        dev_vm_step();
        size_t missing = to->size - done;
        for (size_t i = 0; i < missing; i++) {
            int64_t drawn = chance_draw(choosing, draws);
            if (drawn < choosing->count && chances[drawn] > 0) {
                at[done++] = drawn;
                chances[drawn] = 0;
            }
            if (i % DRAWS == DRAWS - 1) {
                dev_np_pay(NP_CHUNK);
            }
        }
        dev_np_pay(missing % DRAWS * (NP_CHUNK / DRAWS));
    }
}

static struct np_array *chosen(struct choosing *choosing, mp_obj_t size, bool replace)
{
    struct np_array *made = dev_np_sized(NP_I64, size);
    if (!replace && made->size > (size_t)choosing->count) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a larger sample than there is"));
    }
    if (replace && choosing->chances != NULL) {
        chosen_again(choosing, made);
    } else if (replace) {
        struct range range = {0, (uint64_t)(choosing->count > 0 ? choosing->count - 1 : 0)};
        whole_fill(made, &range);
    } else if (choosing->chances != NULL) {
        chosen_once(choosing, made);
    } else {
        struct np_array *order = order_draw(choosing->count);
        memcpy(made->data, order->data, made->size * sizeof(int64_t));
    }
    return made;
}

static mp_obj_t choice(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, SIZE, REPLACE, P, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_replace, MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_p, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *from = dev_np_of(values[A].u_obj);
    if (from->rank > 1 || (from->rank == 0 && dev_np_is_real(from->type))) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a is an int or of one dimension"));
    }
    struct choosing choosing = {.chances = NULL};
    choosing.count =
        from->rank == 1 ? from->dims[0] : mp_obj_get_int(dev_np_get(from->type, from->data));
    struct np_array *sized = dev_np_sized(NP_I64, values[SIZE].u_obj);
    if (choosing.count <= 0 && sized->size > 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a must not be empty"));
    }
    choosing.count = choosing.count < 0 ? 0 : choosing.count;
    if (values[P].u_obj != mp_const_none) {
        chances_take(&choosing, values[P].u_obj);
    }
    struct np_array *made = chosen(&choosing, values[SIZE].u_obj, values[REPLACE].u_bool);
    if (from->rank == 0) {
        return dev_np_result(made);
    }
    return dev_np_subscr(MP_OBJ_FROM_PTR(from), dev_np_result(made), MP_OBJ_SENTINEL);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_choice_obj, 1, choice);
