// The table of users that devices are bound to. Read by workers where exclusive files are asked
// for, written on the control thread; nothing of it is kept in memory.
//
//   row := u8 version(1), u16 tenant, u64 bound_s, u8 size, name
#include "svc/access/device_user.h"

#include "svc/core_private.h"

#include "base/cursor.h"

#include <string.h>

#define ROW_VERSION 1
#define ROW_MAX     (1 + 2 + 8 + 1 + WIRE_SUBJECT_MAX)

static enum base_status decode(struct base_span row, uint16_t tenant,
                               char out[WIRE_SUBJECT_MAX + 1])
{
    struct base_reader reader;
    base_reader_init(&reader, row.data, row.size);
    uint8_t version = base_reader_u8(&reader);
    uint16_t owner = base_reader_u16(&reader);
    (void)base_reader_u64(&reader);
    size_t size = base_reader_u8(&reader);
    const uint8_t *name = base_reader_bytes(&reader, size);
    if (base_reader_finish(&reader) != BASE_OK || version != ROW_VERSION ||
        !wire_user_ok((struct base_str){(const char *)name, size})) {
        return BASE_ERR_CORRUPT;
    }
    if (owner != tenant) {
        return BASE_ERR_NOT_FOUND;
    }
    memcpy(out, name, size);
    out[size] = '\0';
    return BASE_OK;
}

enum base_status gw_device_user_get(struct gw_core *core, uint16_t tenant, uint64_t device_id,
                                    char out[WIRE_SUBJECT_MAX + 1])
{
    struct gw_key key = gw_key_u64(device_id);
    struct gw_store_read *read;
    struct base_span row;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_USERS, &key, &row);
    if (status == BASE_OK) {
        status = decode(row, tenant, out);
    }
    gw_store_read_end(read);
    return status;
}

struct bind_op {
    struct gw_store_op op;
    uint64_t device_id;
    uint8_t row[ROW_MAX];
    size_t size; // 0: the row goes
};

static enum base_status bind_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct bind_op *bind = (struct bind_op *)self;
    struct gw_key key = gw_key_u64(bind->device_id);
    return bind->size > 0 ? gw_store_txn_put(txn, GW_TABLE_USERS, &key, bind->row, bind->size)
                          : gw_store_txn_delete(txn, GW_TABLE_USERS, &key);
}

enum base_status gw_device_user_forget(struct gw_store_txn *txn, uint64_t device_id)
{
    struct gw_key key = gw_key_u64(device_id);
    return gw_store_txn_delete(txn, GW_TABLE_USERS, &key);
}

enum base_status gw_device_user_set(struct gw_core *core, uint16_t tenant, uint64_t device_id,
                                    struct base_str user)
{
    struct bind_op bind = {.device_id = device_id};
    struct base_writer writer;
    if (user.size > 0) {
        if (!wire_user_ok(user)) {
            return BASE_ERR_INVALID;
        }
        base_writer_init(&writer, bind.row, sizeof(bind.row));
        base_writer_u8(&writer, ROW_VERSION);
        base_writer_u16(&writer, tenant);
        base_writer_u64(&writer, gw_core_now_s(core));
        base_writer_u8(&writer, (uint8_t)user.size);
        base_writer_bytes(&writer, user.data, user.size);
        BASE_TRY(writer.status);
        bind.size = base_writer_size(&writer);
    }
    bind.op.apply = bind_apply;
    bind.op.sort_key = device_id;
    return gw_audit_submit_wait(core, &bind.op);
}
