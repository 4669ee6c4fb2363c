// Credentials and ids made of a device's enrolment key. Called by enroll.c on workers' threads.
//
// A credential is the SHA-256 of a label, the key, the token, the id and, once the device was
// reset, how often: without the key, 32 random bytes of the device's own, nobody makes it, neither
// another device with the same token nor who reads the store, which keeps the hash of the
// credential alone.
#include "svc/access/enrol_key.h"

#include "store/store.h"

#include "base/cursor.h"

#include <string.h>

#define PREFIX_BYTES 4u
#define LABEL_BYTES  8u
#define INPUT_MAX    (LABEL_BYTES + GW_SECRET_TEXT_BYTES + GW_AUTHORIZATION_SIZE + 12u)

static const char label_credential[LABEL_BYTES + 1] = "enrol cr";
static const char label_id[LABEL_BYTES + 1] = "enrol id";

bool gw_enrol_key_ok(struct base_str key)
{
    uint8_t bytes[GW_SECRET_BYTES];
    size_t size = 0;
    if (key.size != GW_SECRET_TEXT_BYTES ||
        memcmp(key.data, GW_SECRET_ENROL_KEY, PREFIX_BYTES) != 0) {
        return false;
    }
    struct base_str rest = {key.data + PREFIX_BYTES, key.size - PREFIX_BYTES};
    return base_b64_decode(rest, bytes, sizeof(bytes), &size) == BASE_OK && size == sizeof(bytes);
}

enum base_status gw_enrol_key_credential(const struct gw_enrol_who *who,
                                         char out_text[GW_SECRET_TEXT_BYTES + 1])
{
    uint8_t input[INPUT_MAX];
    struct base_writer writer;
    struct wire_sha256 made;
    if (who->key.size != GW_SECRET_TEXT_BYTES || who->authorization.size != GW_AUTHORIZATION_SIZE) {
        return BASE_ERR_INVALID;
    }
    base_writer_init(&writer, input, sizeof(input));
    base_writer_bytes(&writer, label_credential, LABEL_BYTES);
    base_writer_bytes(&writer, who->key.data, who->key.size);
    base_writer_bytes(&writer, who->authorization.data, who->authorization.size);
    base_writer_u64(&writer, who->id);
    if (who->resets > 0) {
        base_writer_u32(&writer, who->resets);
    }
    gw_sha256(input, base_writer_size(&writer), &made);
    memcpy(out_text, GW_SECRET_DEVICE, PREFIX_BYTES);
    size_t size = base_b64_encode(made.bytes, sizeof(made.bytes), out_text + PREFIX_BYTES);
    out_text[PREFIX_BYTES + size] = '\0';
    return BASE_OK;
}

uint64_t gw_enrol_key_id(struct base_str key, uint32_t draw)
{
    uint8_t input[INPUT_MAX];
    struct base_writer writer;
    struct wire_sha256 made;
    struct base_reader reader;
    base_writer_init(&writer, input, sizeof(input));
    base_writer_bytes(&writer, label_id, LABEL_BYTES);
    base_writer_bytes(&writer, key.data,
                      key.size < GW_SECRET_TEXT_BYTES ? key.size : GW_SECRET_TEXT_BYTES);
    base_writer_u8(&writer, (uint8_t)draw);
    gw_sha256(input, base_writer_size(&writer), &made);
    base_reader_init(&reader, made.bytes, sizeof(made.bytes));
    uint64_t id = base_reader_u64(&reader);
    return id != 0 ? id : 1;
}
