// Arrays as the bytes that walle.store keeps of them (vm/vm_store.h), and back. Called by
// vm_store.c, on the VM's thread. Of what is read no byte is believed: a store can be damaged, and
// a task's process can make one.
#include "vm/np/np.h"

#include "wire/store/store_image.h"

#include "base/check.h"
#include "base/ckd.h"

#include <string.h>

_Static_assert(NP_BOOL == 0 && NP_F64 == 6 && NP_TYPES == 7, "types of arrays are stored as these");

void dev_np_store_write(struct base_writer *writer, mp_obj_t value)
{
    const struct np_array *array = dev_np_dense(MP_OBJ_TO_PTR(value));
    for (uint32_t d = 0; d < array->rank; d++) {
        if (array->dims[d] > WIRE_STORE_QUOTA_KIB_MAX * 1024) { // of an empty one
            mp_raise_ValueError(MP_ERROR_TEXT("walle.store: a dimension is above 65536"));
        }
    }
    size_t bytes = array->size * dev_np_item(array->type);
    base_writer_u8(writer, (uint8_t)array->type);
    base_writer_u8(writer, (uint8_t)array->rank);
    for (uint32_t d = 0; d < array->rank; d++) {
        base_writer_varint(writer, (uint64_t)array->dims[d]);
    }
    dev_vm_work(bytes / DEV_VM_COPY_PER_UNIT);
    base_writer_bytes(writer, array->data, bytes);
}

mp_obj_t dev_np_store_read(struct base_reader *reader)
{
    int64_t dims[NP_RANK] = {0};
    size_t size = 1;
    uint32_t type = base_reader_u8(reader);
    uint32_t rank = base_reader_u8(reader);
    bool good = type < NP_TYPES && rank <= NP_RANK;
    for (uint32_t d = 0; good && d < rank; d++) {
        dims[d] = (int64_t)base_reader_varint_max(reader, WIRE_STORE_QUOTA_KIB_MAX * 1024);
        good = base_ckd_mul(size, (size_t)dims[d], &size);
    }
    size_t item = good ? dev_np_item((enum np_type)type) : 1;
    const uint8_t *data = good && size <= base_reader_left(reader) / item
                              ? base_reader_bytes(reader, size * item)
                              : NULL;
    if (data == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.store: what is kept is damaged"));
    }
    struct np_array *array = dev_np_new((enum np_type)type, rank, dims);
    dev_vm_work(size * item / (type == NP_BOOL ? DEV_VM_TEXT_PER_UNIT : DEV_VM_COPY_PER_UNIT));
    memcpy(array->data, data, size * item);
    for (size_t i = 0; i < size && array->type == NP_BOOL; i++) {
        array->data[i] = array->data[i] != 0;
    }
    return MP_OBJ_FROM_PTR(array);
}
