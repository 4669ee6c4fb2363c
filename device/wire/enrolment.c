// Codec of enrolments: the gateway encodes (svc/device/enroll.c), devices (posix/posix_enroll.c)
// and the simulator parse. Pure, any thread. A credential goes into a request's header as it is, so
// encoder and parser both refuse one that no header could carry (wire_credential_ok). The version
// comes first and is judged last: a parsed enrolment of another version is UNSUPPORTED.
#include "wire/enrolment.h"

bool wire_credential_ok(struct base_str text)
{
    if (text.size == 0 || text.size > WIRE_CREDENTIAL_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

enum base_status wire_enrolment_encode(const struct wire_enrolment *enrolment, uint8_t *out,
                                       size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    if (!wire_credential_ok(enrolment->credential)) {
        return BASE_ERR_INVALID;
    }
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, WIRE_ENROLMENT_VERSION);
    base_writer_u64(&writer, enrolment->device_id);
    base_writer_u8(&writer, (uint8_t)enrolment->credential.size);
    base_writer_bytes(&writer, enrolment->credential.data, enrolment->credential.size);
    if (writer.status == BASE_OK) {
        *out_size = base_writer_size(&writer);
    }
    return writer.status;
}

enum base_status wire_enrolment_parse(const uint8_t *bytes, size_t size, struct wire_enrolment *out)
{
    struct base_reader reader;
    struct wire_enrolment enrolment;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    enrolment.device_id = base_reader_u64(&reader);
    enrolment.credential.size = base_reader_u8(&reader);
    enrolment.credential.data = (const char *)base_reader_bytes(&reader, enrolment.credential.size);
    BASE_TRY(base_reader_finish(&reader));
    if (version != WIRE_ENROLMENT_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    if (!wire_credential_ok(enrolment.credential)) {
        return BASE_ERR_INVALID;
    }
    *out = enrolment;
    return BASE_OK;
}
