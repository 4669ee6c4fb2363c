// Going through arrays of one shape together: broadcasting, and rows given to a loop. Dimensions
// that lie behind one another in every operand are gone through as one. Called by all of walle.np
// that looks at elements, on the VM's thread.
#include "vm/np/np_lanes.h"

#include "vm/vm.h"

#include <string.h>

void dev_np_pay(size_t elements)
{
    if (elements >= DEV_VM_WORK_PER_UNIT) {
        if (dev_vm_budget_charge(elements / DEV_VM_WORK_PER_UNIT)) {
            dev_vm_over_budget();
        }
    }
}

static _Noreturn void raise_shapes(void)
{
    mp_raise_ValueError(
        MP_ERROR_TEXT("walle.np: operands could not be broadcast together: their shapes differ"));
}

void dev_np_broadcast_dims(const struct np_array *const *arrays, uint32_t count,
                           struct np_array *out_shape)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        rank = arrays[i]->rank > rank ? arrays[i]->rank : rank;
    }
    out_shape->rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        out_shape->dims[d] = 1;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t missing = rank - arrays[i]->rank;
            int64_t size = d < missing ? 1 : arrays[i]->dims[d - missing];
            if (size != 1 && out_shape->dims[d] != 1 && size != out_shape->dims[d]) {
                raise_shapes();
            }
            out_shape->dims[d] = size != 1 ? size : out_shape->dims[d];
        }
    }
}

struct np_array dev_np_stretched(const struct np_array *array, uint32_t rank, const int64_t *dims)
{
    struct np_array made = *array;
    if (array->rank > rank) {
        raise_shapes();
    }
    uint32_t missing = rank - array->rank;
    made.rank = rank;
    made.size = 1;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = d < missing ? 1 : array->dims[d - missing];
        if (size != dims[d] && size != 1) {
            raise_shapes();
        }
        made.dims[d] = dims[d];
        made.steps[d] = size == dims[d] && d >= missing ? array->steps[d - missing] : 0;
        if (dims[d] == 1) {
            made.steps[d] = 0;
        }
        if (__builtin_mul_overflow(made.size, (size_t)dims[d], &made.size) ||
            made.size > (size_t)ENG_ELEMENTS_MAX) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the broadcast shape is too large"));
        }
    }
    return made;
}

// Can dimension d be gone through together with the one that walk has last?
static bool continues(const struct np_walk *walk, const struct np_array *const *arrays, uint32_t d)
{
    uint32_t last = walk->rank - 1;
    for (uint32_t i = 0; i < walk->operands; i++) {
        if (walk->steps[i][last] != arrays[i]->steps[d] * arrays[i]->dims[d]) {
            return false;
        }
    }
    return true;
}

static void walk_make(struct np_walk *walk, const struct np_array *const *arrays, uint32_t count)
{
    walk->rank = 0;
    walk->operands = count;
    for (uint32_t i = 0; i < count; i++) {
        walk->at[i] = arrays[i]->data;
    }
    for (uint32_t d = 0; d < arrays[0]->rank; d++) {
        int64_t size = arrays[0]->dims[d];
        if (size == 1) {
            continue;
        }
        if (walk->rank > 0 && continues(walk, arrays, d)) {
            walk->dims[walk->rank - 1] *= size;
        } else {
            walk->dims[walk->rank++] = size;
        }
        for (uint32_t i = 0; i < count; i++) {
            walk->steps[i][walk->rank - 1] = arrays[i]->steps[d];
        }
    }
    if (walk->rank == 0) {
        walk->dims[walk->rank++] = 1;
        for (uint32_t i = 0; i < count; i++) {
            walk->steps[i][0] = 0;
        }
    }
}

// The next row; false: there is none.
static bool walk_next(struct np_walk *walk, int64_t *index)
{
    for (uint32_t d = walk->rank - 1; d-- > 0;) {
        index[d]++;
        for (uint32_t i = 0; i < walk->operands; i++) {
            walk->at[i] += walk->steps[i][d];
        }
        if (index[d] < walk->dims[d]) {
            return true;
        }
        for (uint32_t i = 0; i < walk->operands; i++) {
            walk->at[i] -= walk->steps[i][d] * walk->dims[d];
        }
        index[d] = 0;
    }
    return false;
}

void dev_np_walk(const struct np_array *const *arrays, uint32_t count, np_loop *loop)
{
    if (arrays[0]->size == 0) {
        return;
    }
    struct np_walk walk;
    walk_make(&walk, arrays, count);
    uint32_t last = walk.rank - 1;
    int64_t steps[NP_OPERANDS];
    int64_t index[NP_RANK] = {0};
    for (uint32_t i = 0; i < count; i++) {
        steps[i] = walk.steps[i][last];
    }
    size_t length = (size_t)walk.dims[last];
    size_t owed = 0; // elements gone through and not paid for
    do {
        uint8_t *at[NP_OPERANDS];
        memcpy(at, walk.at, sizeof(at));
        for (size_t done = 0; done < length; done += NP_CHUNK) {
            size_t now = length - done < NP_CHUNK ? length - done : NP_CHUNK;
            loop(at, steps, now);
            for (uint32_t i = 0; i < count; i++) {
                at[i] += steps[i] * (int64_t)now;
            }
            owed += now;
            if (owed >= NP_CHUNK) {
                dev_np_pay(owed);
                owed = 0;
            }
        }
    } while (walk_next(&walk, index));
    dev_np_pay(owed);
}

// Bytes from the lowest element to behind the highest.
static void extent(const struct np_array *array, uintptr_t *low, uintptr_t *high)
{
    *low = (uintptr_t)array->data;
    *high = *low + dev_np_item(array->type);
    for (uint32_t d = 0; d < array->rank; d++) {
        int64_t reach = array->steps[d] * (array->dims[d] - 1);
        if (reach < 0) {
            *low -= (uintptr_t)-reach;
        } else {
            *high += (uintptr_t)reach;
        }
    }
}

bool dev_np_overlap(const struct np_array *left, const struct np_array *right)
{
    uintptr_t left_low, left_high, right_low, right_high;
    if (left->block != right->block || left->size == 0 || right->size == 0) {
        return false;
    }
    extent(left, &left_low, &left_high);
    extent(right, &right_low, &right_high);
    return left_low < right_high && right_low < left_high;
}

void dev_np_lanes(const struct np_array *const *arrays, const struct np_lanes *lanes,
                  void (*each)(const struct np_lane *lane))
{
    struct np_lane lane = {.ctx = lanes->ctx};
    int64_t index[NP_RANK] = {0};
    uint32_t rank = arrays[0]->rank;
    for (uint32_t i = 0; i < lanes->count; i++) {
        lane.at[i] = arrays[i]->data;
        lane.steps[i] = arrays[i]->steps[lanes->axis];
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (d != lanes->axis && arrays[0]->dims[d] == 0) {
            return;
        }
    }
    size_t owed = 0;
    uint32_t d = 0;
    do {
        owed += lanes->work + 1;
        if (owed >= NP_CHUNK) {
            dev_np_pay(owed);
            owed = 0;
        }
        each(&lane);
        for (d = rank; d-- > 0;) {
            if (d == lanes->axis) {
                continue;
            }
            int64_t back = ++index[d] < arrays[0]->dims[d] ? 0 : arrays[0]->dims[d];
            for (uint32_t i = 0; i < lanes->count; i++) {
                lane.at[i] += arrays[i]->steps[d] * (1 - back);
            }
            if (back == 0) {
                break;
            }
            index[d] = 0;
        }
    } while (d != UINT32_MAX);
    dev_np_pay(owed);
}
