// Functions of elements and the operators of arrays: which type they are computed in, what shape
// comes out, where it goes. The loops are those of np_loops.h. Called by scripts, through the
// module's table and through operators, on the VM's thread. A number is an operand on the C stack,
// not an array of the heap.
#include "vm/np/np_math.h"

#include "vm/vm_nn.h"

#include <string.h>

// An operand that is a number, or was made of one.
struct number {
    struct np_array array;
    uint64_t value;
};

static void number_set(struct number *number, enum np_type type, mp_obj_t value)
{
    number->array = (struct np_array){.type = type, .size = 1};
    number->array.data = (uint8_t *)&number->value;
    dev_np_set(type, &number->value, value);
}

// NULL: it is nothing that has elements.
static const struct np_array *operand_of(mp_obj_t value, struct number *number)
{
    if (mp_obj_is_exact_type(value, &dev_np_array_type)) {
        return MP_OBJ_TO_PTR(value);
    }
    enum np_type type = dev_np_number_type(value);
    if (type != NP_TYPES) {
        number_set(number, type, value);
        return &number->array;
    }
    if (mp_obj_is_exact_type(value, &mp_type_list) || mp_obj_is_exact_type(value, &mp_type_tuple) ||
        mp_obj_is_exact_type(value, &dev_vm_tensor_type)) {
        return dev_np_of(value);
    }
    return NULL;
}

static const struct np_array *operand_cast(const struct np_array *operand, enum np_type type,
                                           struct number *number)
{
    if (operand->type == type) {
        return operand;
    }
    if (operand->rank > 0) {
        return dev_np_cast(operand, type);
    }
    uint64_t value;
    uint8_t *at[] = {(uint8_t *)&value, operand->data};
    const int64_t steps[] = {0, 0};
    dev_np_cast_loop(type, operand->type)(at, steps, 1);
    number->array = (struct np_array){.type = type, .size = 1};
    number->array.data = (uint8_t *)&number->value;
    number->value = value;
    return &number->array;
}

static const char *const binary_names[NP_BINARIES] = {
    [NP_ADD] = "add",
    [NP_SUBTRACT] = "subtract",
    [NP_MULTIPLY] = "multiply",
    [NP_DIVIDE] = "divide",
    [NP_FLOOR_DIVIDE] = "floor_divide",
    [NP_REMAINDER] = "remainder",
    [NP_POWER] = "power",
    [NP_BIT_AND] = "bitwise_and",
    [NP_BIT_OR] = "bitwise_or",
    [NP_BIT_XOR] = "bitwise_xor",
    [NP_SHIFT_LEFT] = "left_shift",
    [NP_SHIFT_RIGHT] = "right_shift",
    [NP_LDEXP] = "ldexp",
};

static _Noreturn void raise_no_loop(const char *name, enum np_type type)
{
    mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.np: %s is not supported for %s"),
                      name != NULL ? name : "this function", dev_np_type_name(type));
}

// What whole numbers become where only reals have a result.
static enum np_type real_of(enum np_type type)
{
    return dev_np_is_real(type) ? type : type <= NP_U8 ? NP_F32 : NP_F64;
}

// The type that operands of a common type are computed in.
static enum np_type binary_type(enum np_binary function, enum np_type common)
{
    if (function == NP_DIVIDE && !dev_np_is_real(common)) {
        return NP_F64;
    }
    if (dev_np_binary_loop(function, common) != NULL) {
        return common;
    }
    if (function == NP_ARCTAN2 || function == NP_HYPOT || function == NP_COPYSIGN ||
        function == NP_LOGADDEXP || function == NP_LOGADDEXP2) {
        return real_of(common);
    }
    if (function == NP_FLOAT_POWER) {
        return NP_F64;
    }
    if (common == NP_BOOL && function != NP_SUBTRACT) {
        return NP_I32; // NumPy has int8
    }
    raise_no_loop(binary_names[function], common);
}

static enum np_type operands_type(enum np_binary function, const struct np_array *left,
                                  const struct np_array *right)
{
    if (function == NP_LDEXP) {
        if (right->type > NP_I64) {
            raise_no_loop(binary_names[function], right->type);
        }
        return real_of(left->type);
    }
    return binary_type(function, dev_np_common(left, right));
}

// May a result of one type be put into an array of another? bool, unsigned, signed, real: upwards.
static bool is_same_kind(enum np_type from, enum np_type to)
{
    static const uint8_t kinds[NP_TYPES] = {0, 1, 2, 2, 1, 3, 3};
    return kinds[from] <= kinds[to];
}

struct np_array *dev_np_out(mp_obj_t out, enum np_type type, const struct np_array *shape)
{
    if (!mp_obj_is_exact_type(out, &dev_np_array_type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: out must be an array"));
    }
    struct np_array *array = MP_OBJ_TO_PTR(out);
    if (array->is_read_only) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: output array is read-only"));
    }
    if (!is_same_kind(type, array->type)) {
        mp_raise_msg_varg(&mp_type_TypeError,
                          MP_ERROR_TEXT("walle.np: cannot cast the result from %s to %s"),
                          dev_np_type_name(type), dev_np_type_name(array->type));
    }
    if (array->rank != shape->rank ||
        memcmp(array->dims, shape->dims, shape->rank * sizeof(int64_t)) != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the output has another shape"));
    }
    return array;
}

// Where elements are read after they were written, they are copied before.
static const struct np_array *apart(const struct np_array *from, const struct np_array *to)
{
    bool is_same = from->data == to->data && from->rank == to->rank && from->type == to->type &&
                   memcmp(from->steps, to->steps, to->rank * sizeof(int64_t)) == 0 &&
                   memcmp(from->dims, to->dims, to->rank * sizeof(int64_t)) == 0;
    return is_same || !dev_np_overlap(from, to) ? from : dev_np_cast(from, from->type);
}

static void no_negative(const struct np_array *exponents)
{
    struct number zero = {.value = 0};
    if (exponents->type != NP_I32 && exponents->type != NP_I64) {
        return;
    }
    zero.array = (struct np_array){.type = exponents->type, .size = 1};
    zero.array.data = (uint8_t *)&zero.value;
    struct np_array *seen = dev_np_new(NP_BOOL, 0, NULL);
    struct np_array *less = dev_np_room(NP_BOOL, exponents->rank, exponents->dims);
    struct np_array nothing = dev_np_stretched(&zero.array, exponents->rank, exponents->dims);
    const struct np_array *compared[] = {less, exponents, &nothing};
    dev_np_walk(compared, 3, dev_np_binary_loop(NP_LESS, exponents->type));
    struct np_array any = dev_np_stretched(seen, less->rank, less->dims);
    const struct np_array *folded[] = {&any, &any, less};
    dev_np_walk(folded, 3, dev_np_binary_loop(NP_MAXIMUM, NP_BOOL));
    if (*seen->data != 0) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np: integers to negative integer powers are not allowed"));
    }
}

// `out` is MP_OBJ_NULL or where the result goes. left and right are operands of one type.
static mp_obj_t binary_run(enum np_binary function, const struct np_array *left,
                           const struct np_array *right, mp_obj_t out)
{
    enum np_type type = left->type;
    enum np_type result = function >= NP_EQUAL ? NP_BOOL : type;
    const struct np_array *operands[] = {left, right};
    struct np_array shape;
    dev_np_broadcast_dims(operands, 2, &shape);
    struct np_array *given = out == MP_OBJ_NULL ? NULL : dev_np_out(out, result, &shape);
    struct np_array *to = given;
    if (given == NULL || given->type != result) {
        to = dev_np_room(result, shape.rank, shape.dims);
    } else {
        left = apart(left, given);
        right = apart(right, given);
    }
    struct np_array wide_left = dev_np_stretched(left, shape.rank, shape.dims);
    struct np_array wide_right = dev_np_stretched(right, shape.rank, shape.dims);
    const struct np_array *walked[] = {to, &wide_left, &wide_right};
    dev_np_walk(walked, 3, dev_np_binary_loop(function, type));
    if (given != NULL && given != to) {
        dev_np_fill(given, to);
    }
    return given != NULL ? out : dev_np_result(to);
}

static mp_obj_t binary_of(enum np_binary function, const struct np_array *left,
                          const struct np_array *right, mp_obj_t out)
{
    struct number left_number;
    struct number right_number;
    if (function == NP_GREATER || function == NP_GREATER_EQUAL) {
        const struct np_array *swapped = left;
        left = right;
        right = swapped;
        function = function == NP_GREATER ? NP_LESS : NP_LESS_EQUAL;
    }
    enum np_type type = operands_type(function, left, right);
    left = operand_cast(left, type, &left_number);
    right = operand_cast(right, type, &right_number);
    if (function == NP_POWER) {
        no_negative(right);
    }
    return binary_run(function, left, right, out);
}

mp_obj_t dev_np_binary(enum np_binary function, mp_obj_t left, mp_obj_t right, mp_obj_t out)
{
    struct number left_number;
    struct number right_number;
    const struct np_array *left_array = operand_of(left, &left_number);
    const struct np_array *right_array = operand_of(right, &right_number);
    if (left_array == NULL || right_array == NULL) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: an operand is no array and no number"));
    }
    return binary_of(function, left_array, right_array, out);
}

// --- one operand

static enum np_type unary_type(enum np_unary function, enum np_type type)
{
    if (dev_np_unary_loop(function, type) != NULL) {
        return type;
    }
    if (function == NP_SINC) {
        return NP_F64;
    }
    if (function >= NP_RINT && function != NP_RECIPROCAL && function != NP_LOGICAL_NOT) {
        return real_of(type);
    }
    if (type == NP_BOOL && (function == NP_SQUARE || function == NP_RECIPROCAL)) {
        return NP_I32; // NumPy has int8
    }
    raise_no_loop(function == NP_NEGATIVE   ? "negative"
                  : function == NP_INVERT   ? "invert"
                  : function == NP_POSITIVE ? "positive"
                                            : NULL,
                  type);
}

mp_obj_t dev_np_unary(enum np_unary function, mp_obj_t value, mp_obj_t out)
{
    struct number number;
    struct number narrow;
    const struct np_array *from = operand_of(value, &number);
    if (from == NULL) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: the operand is no array and no number"));
    }
    enum np_type type = unary_type(function, from->type);
    enum np_type result = function >= NP_ISNAN ? NP_BOOL : type;
    from = operand_cast(from, type, &narrow);
    struct np_array *given = out == MP_OBJ_NULL ? NULL : dev_np_out(out, result, from);
    struct np_array *to = given;
    if (given == NULL || given->type != result) {
        to = dev_np_room(result, from->rank, from->dims);
    } else {
        from = apart(from, given);
    }
    const struct np_array *walked[] = {to, from};
    dev_np_walk(walked, 2, dev_np_unary_loop(function, type));
    if (given != NULL && given != to) {
        dev_np_fill(given, to);
    }
    return given != NULL ? out : dev_np_result(to);
}

// --- operators

// By MP_BINARY_OP_OR and on.
static const uint8_t arithmetic[] = {
    NP_BIT_OR, NP_BIT_XOR,   NP_BIT_AND,  NP_SHIFT_LEFT,       NP_SHIFT_RIGHT,
    NP_ADD,    NP_SUBTRACT,  NP_MULTIPLY, NP_BINARIES /* @ */, NP_FLOOR_DIVIDE,
    NP_DIVIDE, NP_REMAINDER, NP_POWER};

static enum np_binary comparison_of(mp_binary_op_t op)
{
    switch (op) {
    case MP_BINARY_OP_LESS:
        return NP_LESS;
    case MP_BINARY_OP_MORE:
        return NP_GREATER;
    case MP_BINARY_OP_EQUAL:
        return NP_EQUAL;
    case MP_BINARY_OP_LESS_EQUAL:
        return NP_LESS_EQUAL;
    case MP_BINARY_OP_MORE_EQUAL:
        return NP_GREATER_EQUAL;
    case MP_BINARY_OP_NOT_EQUAL:
        return NP_NOT_EQUAL;
    default:
        return NP_BINARIES;
    }
}

static mp_obj_t contains(mp_obj_t array, mp_obj_t value)
{
    mp_obj_t same = dev_np_binary(NP_EQUAL, array, value, MP_OBJ_NULL);
    return dev_np_any(same);
}

mp_obj_t dev_np_operator(mp_binary_op_t op, mp_obj_t left, mp_obj_t right)
{
    if (op == MP_BINARY_OP_CONTAINS) {
        return contains(left, right);
    }
    mp_obj_t out = MP_OBJ_NULL;
    enum np_binary function = comparison_of(op);
    if (op >= MP_BINARY_OP_REVERSE_OR && op <= MP_BINARY_OP_REVERSE_POWER) {
        mp_obj_t swapped = left;
        left = right;
        right = swapped;
        op = (mp_binary_op_t)(op - MP_BINARY_OP_REVERSE_OR + MP_BINARY_OP_OR);
    } else if (op >= MP_BINARY_OP_INPLACE_OR && op <= MP_BINARY_OP_INPLACE_POWER) {
        out = left;
        op = (mp_binary_op_t)(op - MP_BINARY_OP_INPLACE_OR + MP_BINARY_OP_OR);
    }
    if (op == MP_BINARY_OP_MAT_MULTIPLY && out == MP_OBJ_NULL) {
        return dev_np_matmul(left, right);
    }
    if (op >= MP_BINARY_OP_OR && op <= MP_BINARY_OP_POWER) {
        function = (enum np_binary)arithmetic[op - MP_BINARY_OP_OR];
    }
    struct number left_number;
    struct number right_number;
    const struct np_array *left_array = operand_of(left, &left_number);
    const struct np_array *right_array = operand_of(right, &right_number);
    if (function == NP_BINARIES || left_array == NULL || right_array == NULL) {
        return MP_OBJ_NULL; // not supported
    }
    return binary_of(function, left_array, right_array, out);
}

mp_obj_t dev_np_unary_operator(mp_unary_op_t op, mp_obj_t self)
{
    const struct np_array *array = MP_OBJ_TO_PTR(self);
    switch (op) {
    case MP_UNARY_OP_POSITIVE:
        return dev_np_result(dev_np_cast(array, array->type));
    case MP_UNARY_OP_NEGATIVE:
        return dev_np_unary(NP_NEGATIVE, self, MP_OBJ_NULL);
    case MP_UNARY_OP_INVERT:
        return dev_np_unary(NP_INVERT, self, MP_OBJ_NULL);
    case MP_UNARY_OP_ABS:
        return dev_np_unary(NP_ABSOLUTE, self, MP_OBJ_NULL);
    case MP_UNARY_OP_LEN:
        if (array->rank == 0) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.np: len() of unsized object"));
        }
        return mp_obj_new_int_from_ll(array->dims[0]);
    case MP_UNARY_OP_BOOL:
        if (array->size > 1) {
            mp_raise_ValueError(MP_ERROR_TEXT(
                "walle.np: the truth value of several elements is ambiguous: any() or all()"));
        }
        return mp_obj_new_bool(array->size == 1 &&
                               mp_obj_is_true(dev_np_get(array->type, array->data)));
    default:
        return MP_OBJ_NULL;
    }
}

// --- as objects of the module

static mp_obj_t function_call(mp_obj_t self, size_t count, size_t named, const mp_obj_t *args)
{
    const struct np_function *function = MP_OBJ_TO_PTR(self);
    mp_obj_t out = MP_OBJ_NULL;
    size_t operands = function->operands;
    mp_arg_check_num(count, 0, operands, operands + 1, false);
    if (count > operands && args[operands] != mp_const_none) {
        out = args[operands];
    }
    for (size_t i = 0; i < named; i++) {
        if (args[count + 2 * i] != MP_OBJ_NEW_QSTR(MP_QSTR_out)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.np: the function takes no such argument"));
        }
        if (args[count + 2 * i + 1] != mp_const_none) {
            out = args[count + 2 * i + 1];
        }
    }
    if (operands == 1) {
        return dev_np_unary((enum np_unary)function->which, args[0], out);
    }
    return dev_np_binary((enum np_binary)function->which, args[0], args[1], out);
}

MP_DEFINE_CONST_OBJ_TYPE(dev_np_function_type, MP_QSTR_ufunc, MP_TYPE_FLAG_NONE, call,
                         function_call);
