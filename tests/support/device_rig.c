// The rig: builds versions, signs statements, and plays the gateway for a runtime on the memory
// port. Aborts on errors of its own.
#include "device_rig.h"

#include "rest_spoil.h"
#include "wire/delta_piece.h"
#include "wire/profile.h"
#include "wire/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "device_rig: %s\n", what);
        abort();
    }
}

static struct wire_sha256 sha256(const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    unsigned int digest_size = 0;
    must(EVP_Digest(bytes, size, digest.bytes, &digest_size, EVP_sha256(), NULL) == 1, "sha256");
    return digest;
}

void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    base_prng_seed(&rig->cuts, 0xc075);
    mem_port_init(&rig->port, 42, &rig->ports);
    rig->ports.delta = dev_delta_zstd(DEV_DELTA_MEMORY_BYTES);
    rig->config = (struct dev_config){
        .device_id = 0x0123456789abcdef,
        .trusted_key_count = 2,
        .tasks_max = 4,
        .outcomes_max = 16,
        .crash_limit = 3,
    };
    rig->config.attrs.count = 2;
    rig->config.attrs.items[0] = (struct wire_attr){
        .name = BASE_STR("os"), .type = WIRE_ATTR_STRING, .text = BASE_STR("android")};
    rig->config.attrs.items[1] =
        (struct wire_attr){.name = BASE_STR("ram_mb"), .type = WIRE_ATTR_INTEGER, .integer = 4096};
    for (uint32_t i = 0; i < RIG_KEYS_MAX; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        size_t size = WIRE_PUBLIC_KEY_BYTES;
        uint8_t public[WIRE_PUBLIC_KEY_BYTES];
        rig->keys[i] = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
        must(rig->keys[i] != NULL && EVP_PKEY_get_raw_public_key(rig->keys[i], public, &size) == 1,
             "key");
        if (i < rig->config.trusted_key_count) {
            memcpy(rig->config.trusted_keys[i], public, sizeof(public));
        }
    }
}

void rig_done(struct rig *rig)
{
    dev_stop(rig->runtime);
    free(rig->memory);
    mem_port_done(&rig->port);
    for (uint32_t i = 0; i < RIG_KEYS_MAX; i++) {
        EVP_PKEY_free(rig->keys[i]);
    }
    for (uint32_t i = 0; i < rig->version_count; i++) {
        for (uint32_t j = 0; j < rig->versions[i].file_count; j++) {
            free(rig->versions[i].files[j].bytes);
        }
    }
}

uint32_t rig_version_add(struct rig *rig, const char *task, uint32_t file_count, size_t file_bytes,
                         uint16_t abi, uint32_t every_s)
{
    static const char *const names[RIG_FILES_MAX] = {"main.mpy", "model.bin", "data.bin",
                                                     "more.bin"};
    static struct wire_manifest manifest;
    must(rig->version_count < RIG_VERSIONS_MAX && file_count <= RIG_FILES_MAX, "versions");
    uint32_t index = rig->version_count++;
    struct rig_version *version = &rig->versions[index];
    memset(&manifest, 0, sizeof(manifest));
    manifest.task_name = base_str_of(task);
    manifest.version = BASE_STR("1.0.0");
    manifest.runtime_abi = abi;
    manifest.entry = BASE_STR("main");
    manifest.every_s = every_s;
    manifest.declaration = (struct base_str){rig->declaration, rig->declaration_bytes};
    manifest.file_count = file_count;
    version->file_count = file_count;
    version->ends = WIRE_OUTCOME_RAN;
    for (uint32_t i = 0; i < file_count; i++) {
        struct rig_file *file = &version->files[i];
        const uint8_t *given = i == 0 ? rig->script : i == 1 ? rig->model : NULL;
        size_t given_bytes = i == 0 ? rig->script_bytes : rig->model_bytes;
        file->size = given != NULL ? given_bytes : file_bytes + i;
        file->bytes = malloc(file->size + 1);
        must(file->bytes != NULL, "memory");
        for (size_t j = 0; j < file->size; j++) {
            file->bytes[j] =
                given != NULL ? given[j] : (uint8_t)(j * 31 + j / 255 + i * 7 + index * 13);
        }
        file->digest = sha256(file->bytes, file->size);
        manifest.files[i] = (struct wire_manifest_file){
            .kind = i == 0 ? WIRE_FILE_SCRIPT : WIRE_FILE_MODEL,
            .name = base_str_of(names[i]),
            .bytes = file->size,
            .digest = file->digest,
        };
    }
    if (rig->version_extra != NULL) {
        rig->version_extra(rig, index, &manifest);
    }
    must(wire_manifest_encode(&manifest, version->bytes, sizeof(version->bytes), &version->size) ==
             BASE_OK,
         "manifest");
    version->manifest = sha256(version->bytes, version->size);
    return index;
}

static void sign(EVP_PKEY *key, const uint8_t *message, size_t size, struct wire_signature *out)
{
    uint8_t public[WIRE_PUBLIC_KEY_BYTES];
    size_t public_size = sizeof(public);
    size_t signature_size = WIRE_SIGNATURE_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    must(EVP_PKEY_get_raw_public_key(key, public, &public_size) == 1 && context != NULL &&
             EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
             EVP_DigestSign(context, out->bytes, &signature_size, message, size) == 1,
         "sign");
    EVP_MD_CTX_free(context);
    struct wire_sha256 id = sha256(public, sizeof(public));
    memcpy(out->key_id, id.bytes, sizeof(out->key_id));
}

void rig_sign_envelope(EVP_PKEY *key, struct wire_envelope *envelope)
{
    uint8_t message[WIRE_STATEMENT_BYTES_MAX + 16];
    size_t size = 0;
    const uint8_t *payload = envelope->payload;
    size_t payload_bytes = envelope->payload_bytes;
    struct wire_sha256 digest;
    if (wire_envelope_is_hashed(envelope->type)) {
        digest = sha256(payload, payload_bytes);
        payload = digest.bytes;
        payload_bytes = sizeof(digest.bytes);
    }
    must(wire_envelope_signed_bytes(envelope->type, (struct base_span){payload, payload_bytes},
                                    message, sizeof(message), &size) == BASE_OK,
         "signed bytes");
    sign(key, message, size, &envelope->signatures[envelope->signature_count++]);
}

// The encoder refuses doubled key ids, so an attack with them is put together here.
static void double_signature(struct rig_envelope *envelope, const struct wire_envelope *frame)
{
    struct base_writer writer;
    base_writer_init(&writer, envelope->bytes, sizeof(envelope->bytes));
    base_writer_bytes(&writer, "WLS1", 4);
    base_writer_u8(&writer, frame->type);
    base_writer_varint(&writer, frame->payload_bytes);
    base_writer_bytes(&writer, frame->payload, frame->payload_bytes);
    base_writer_u8(&writer, 2);
    for (int i = 0; i < 2; i++) {
        base_writer_bytes(&writer, frame->signatures[0].key_id, WIRE_SHA256_BYTES);
        base_writer_bytes(&writer, frame->signatures[0].bytes, WIRE_SIGNATURE_BYTES);
    }
    must(writer.status == BASE_OK, "double signature");
    envelope->size = base_writer_size(&writer);
}

void rig_sign(struct rig *rig, const struct rig_statement *statement, struct rig_envelope *out)
{
    uint64_t now_s = rig->port.clock.wall_us / 1000000;
    const struct rig_version *version = &rig->versions[statement->version];
    struct wire_release release = {
        .task_name = base_str_of(statement->task),
        .release_counter = statement->counter,
        .floor = statement->floor,
        .manifest = version->manifest,
        .manifest_bytes = version->size,
        .rollout_id = statement->rollout_id,
        .salt = statement->salt,
        .max_bucket = statement->max_bucket > 0 ? statement->max_bucket : 10000,
        .stage_kind = statement->shadow      ? WIRE_STAGE_SHADOW
                      : statement->stage > 0 ? statement->stage
                                             : 1,
        .shadow_slow_percent = statement->slow_percent,
        .shadow_memory_percent = statement->memory_percent,
        .tolerances = statement->tolerances,
        .arm_salt = statement->arm_salt,
        .arm_from = statement->arm_from,
        .arm_to = statement->arm_to,
        .issued_s = statement->issued_s > 0 ? statement->issued_s : now_s,
        .expires_s = statement->expires_s > 0 ? statement->expires_s : now_s + 86400,
    };
    uint8_t payload[512];
    uint8_t message[600];
    size_t message_size = 0;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE, .payload = payload};
    must(wire_release_encode(&release, payload, sizeof(payload), &envelope.payload_bytes) ==
             BASE_OK,
         "release");
    payload[0] = statement->of_kind > 0 ? statement->of_kind : payload[0];
    must(wire_envelope_signed_bytes(envelope.type,
                                    (struct base_span){payload, envelope.payload_bytes}, message,
                                    sizeof(message), &message_size) == BASE_OK,
         "signed bytes");
    uint32_t signers = statement->signers > 0 ? statement->signers : 1;
    for (uint32_t i = 0; i < RIG_KEYS_MAX; i++) {
        if ((signers >> i & 1) != 0) {
            sign(rig->keys[i], message, message_size,
                 &envelope.signatures[envelope.signature_count++]);
        }
    }
    if (statement->key_twice) {
        double_signature(out, &envelope);
        return;
    }
    must(wire_envelope_encode(&envelope, out->bytes, sizeof(out->bytes), &out->size) == BASE_OK,
         "envelope");
}

void rig_offer_none(struct rig *rig)
{
    rig->offer_count = 0;
}

void rig_offer_add(struct rig *rig, const struct rig_statement *statement)
{
    must(rig->offer_count < RIG_OFFERS_MAX, "offers");
    rig_sign(rig, statement, &rig->offers[rig->offer_count++]);
}

void rig_offer(struct rig *rig, const struct rig_statement *statement)
{
    rig_offer_none(rig);
    rig_offer_add(rig, statement);
}

void rig_offer_stop(struct rig *rig, const char *task)
{
    uint8_t payload[8];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_STOP, .payload = payload};
    must(wire_stop_encode(wire_task_id(base_str_of(task)), payload, sizeof(payload),
                          &envelope.payload_bytes) == BASE_OK &&
             wire_envelope_encode(&envelope, rig->offers[0].bytes, sizeof(rig->offers[0].bytes),
                                  &rig->offers[0].size) == BASE_OK,
         "stop");
    rig->offer_count = 1;
}

void rig_mark(struct rig *rig, const char *task, uint64_t rollout_id, uint8_t attempt)
{
    rig->marks[0] = (struct wire_again){wire_task_id(base_str_of(task)), rollout_id, attempt};
    rig->mark_count = 1;
}

enum base_status rig_try_boot(struct rig *rig)
{
    size_t size = dev_runtime_bytes(&rig->config);
    must(size > 0, "configuration");
    free(rig->memory);
    rig->memory = aligned_alloc(16, (size + 15) / 16 * 16);
    must(rig->memory != NULL, "memory");
    must(dev_init(rig->memory, size, &rig->config, &rig->ports, &rig->runtime) == BASE_OK, "init");
    return dev_boot(rig->runtime);
}

void rig_boot(struct rig *rig)
{
    must(rig_try_boot(rig) == BASE_OK, "boot");
    must(dev_validate(rig->runtime), "valid after boot");
}

void rig_kill(struct rig *rig)
{
    free(rig->memory);
    rig->memory = NULL;
    rig->runtime = NULL;
    mem_port_crash(&rig->port);
}

// ---- The gateway

static void answer_status(struct rig *rig, struct mem_exchange *exchange, int status)
{
    struct dev_response_head head = {
        .status = status, .content_bytes = 0, .retry_after_s = rig->retry_after_s};
    mem_exchange_answer(&rig->port, rig->runtime, exchange, &head, (struct base_span){0});
}

size_t rig_offers_encode(struct rig *rig, const struct mem_exchange *exchange, uint8_t *out,
                         size_t capacity)
{
    if (rig->offer_count == 0 && rig->offer_flags == 0 && rig->mark_count == 0 &&
        rig->direct == NULL) {
        return 0;
    }
    struct wire_offers offers = {.flags = rig->offer_flags,
                                 .next_checkin_s = rig->next_checkin_s,
                                 .count = rig->offer_count,
                                 .again_count = rig->mark_count};
    size_t size = 0;
    memcpy(offers.again, rig->marks, sizeof(offers.again));
    for (uint32_t i = 0; i < rig->offer_count; i++) {
        offers.items[i].envelope = rig->offers[i].bytes;
        offers.items[i].envelope_bytes = rig->offers[i].size;
    }
    if (rig->direct != NULL) {
        rig->direct(rig, exchange, &offers);
    }
    must(wire_offers_encode(&offers, out, capacity, &size) == BASE_OK, "offers");
    return size;
}

static void serve_checkin(struct rig *rig, struct mem_exchange *exchange)
{
    rig->checkins++;
    must(strlen(exchange->profile) < sizeof(rig->profile), "profile");
    memcpy(rig->profile, exchange->profile, strlen(exchange->profile) + 1);
    if (rig->checkin_status != 0) {
        answer_status(rig, exchange, rig->checkin_status);
        return;
    }
    static uint8_t body[WIRE_OFFERS_BYTES_MAX];
    size_t size = rig_offers_encode(rig, exchange, body, sizeof(body));
    if (size == 0) {
        answer_status(rig, exchange, 204);
        return;
    }
    rig_checkin_send(rig, exchange, (struct base_span){body, size});
}

static void ledger_add(struct rig *rig, const struct wire_report *report, uint32_t index)
{
    uint64_t seq = report->first_seq + index;
    for (uint32_t i = 0; i < rig->ledger_count; i++) {
        if (rig->ledger[i].epoch == report->epoch && rig->ledger[i].seq == seq) {
            const struct wire_outcome *a = &rig->ledger[i].outcome;
            const struct wire_outcome *b = &report->outcomes[index];
            must(a->kind == b->kind && a->version_id == b->version_id,
                 "a number was used for two outcomes");
            rig->doubled++;
            return;
        }
    }
    must(rig->ledger_count < RIG_LEDGER_MAX, "ledger");
    struct rig_outcome *entry = &rig->ledger[rig->ledger_count++];
    entry->epoch = report->epoch;
    entry->seq = seq;
    entry->outcome = report->outcomes[index];
    size_t size = entry->outcome.detail.size;
    if (size > 0) {
        memcpy(entry->detail, entry->outcome.detail.data, size);
    }
    entry->detail[size] = '\0';
}

void rig_report_take(struct rig *rig, const uint8_t *bytes, size_t size)
{
    static struct wire_report report;
    must(wire_report_parse(bytes, size, &report) == BASE_OK, "report");
    must(report.device_id == rig->config.device_id, "report of another device");
    for (uint32_t i = 0; i < report.count; i++) {
        ledger_add(rig, &report, i);
    }
}

static void serve_report(struct rig *rig, struct mem_exchange *exchange)
{
    rig->reports++;
    if (rig->report_status != 0) {
        answer_status(rig, exchange, rig->report_status);
        return;
    }
    rig_report_take(rig, exchange->body, exchange->body_bytes);
    answer_status(rig, exchange, 204);
}

bool rig_content(const struct rig *rig, struct base_str hex, const uint8_t **out, size_t *size)
{
    struct wire_sha256 name;
    must(wire_sha256_parse(hex, &name) == BASE_OK, "blob name");
    for (uint32_t i = 0; i < rig->version_count; i++) {
        const struct rig_version *version = &rig->versions[i];
        if (wire_sha256_equal(&version->manifest, &name)) {
            *out = version->bytes;
            *size = version->size;
            return true;
        }
        for (uint32_t j = 0; j < version->file_count; j++) {
            if (wire_sha256_equal(&version->files[j].digest, &name)) {
                *out = version->files[j].bytes;
                *size = version->files[j].size;
                return true;
            }
        }
    }
    return rig->own_content != NULL && rig->own_content(rig, &name, out, size);
}

static bool is_open(const struct rig *rig, const struct mem_exchange *exchange, uint32_t id)
{
    return !rig->port.killed && exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id;
}

// A slow link: time goes by before the next bytes come.
static void pause_body(struct rig *rig, size_t at)
{
    if (rig->pause_us > 0 && at >= rig->burst) {
        mem_clock_advance(&rig->port, rig->pause_us);
        (void)tick(rig);
    }
}

static void send_body(struct rig *rig, struct mem_exchange *exchange, uint8_t *bytes, size_t size,
                      enum base_status status, bool end)
{
    uint32_t id = exchange->id;
    size_t chunk = rig->chunk > 0 ? rig->chunk : size;
    for (size_t at = 0; at < size; at += chunk) {
        pause_body(rig, at);
        if (!is_open(rig, exchange, id)) {
            break;
        }
        size_t step = chunk < size - at ? chunk : size - at;
        rig->blob_bytes += step;
        dev_on_body(rig->runtime, id, bytes + at, step);
    }
    if (end && is_open(rig, exchange, id)) {
        mem_exchange_end(&rig->port, rig->runtime, exchange, status);
    }
}

static bool take(int *counter)
{
    if (*counter > 0) {
        (*counter)--;
        return true;
    }
    return false;
}

// Packs bytes into a frame behind room for a delta's head.
static uint8_t *delta_pack(const uint8_t *bytes, size_t size, const uint8_t *old, size_t old_size,
                           size_t *out_size)
{
    size_t capacity = WIRE_DELTA_HEAD_BYTES + ZSTD_compressBound(size);
    uint8_t *out = malloc(capacity);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    must(out != NULL && context != NULL, "memory");
    must(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 19)) &&
             (old == NULL || !ZSTD_isError(ZSTD_CCtx_refPrefix(context, old, old_size))),
         "dictionary");
    size_t wrote = ZSTD_compress2(context, out + WIRE_DELTA_HEAD_BYTES,
                                  capacity - WIRE_DELTA_HEAD_BYTES, bytes, size);
    must(!ZSTD_isError(wrote), "compress");
    ZSTD_freeCCtx(context);
    *out_size = WIRE_DELTA_HEAD_BYTES + wrote;
    return out;
}

// One piece: the bytes that changed.
static uint8_t *pieces_make(const uint8_t *content, size_t size, const uint8_t *old,
                            size_t old_size, size_t *out_size)
{
    struct wire_delta_piece piece = {.form = WIRE_DELTA_BYTES | WIRE_DELTA_SPARSE,
                                     .bytes = (uint32_t)size};
    struct base_writer writer;
    uint64_t cursor = 0;
    size_t capacity = WIRE_DELTA_PIECE_HEAD_MAX + WIRE_DELTA_PIECE_BYTES_MAX;
    uint8_t *payload = malloc(WIRE_DELTA_PIECE_BYTES_MAX);
    uint8_t *pieces = malloc(capacity);
    must(payload != NULL && pieces != NULL && size <= old_size, "memory");
    must(wire_delta_split(&piece, old, content, payload) == BASE_OK, "piece");
    base_writer_init(&writer, pieces, capacity);
    wire_delta_piece_write(&writer, &piece, &cursor);
    base_writer_bytes(&writer, payload, wire_delta_payload_bytes(&piece));
    uint8_t *out = delta_pack(pieces, base_writer_size(&writer), NULL, 0, out_size);
    free(payload);
    free(pieces);
    return out;
}

// The content as a delta against the exchange's dictionary. NULL: answer as it is.
static uint8_t *delta_make(struct rig *rig, const struct mem_exchange *exchange,
                           const uint8_t *content, size_t *size)
{
    const uint8_t *old = NULL;
    size_t old_size = 0;
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&exchange->dictionary, hex);
    if (wire_sha256_is_zero(&exchange->dictionary)) {
        return NULL;
    }
    rig->delta_codings = exchange->delta_codings;
    if (!rig->deltas || !rig_content(rig, base_str_of(hex), &old, &old_size)) {
        return NULL;
    }
    size_t content_size = *size;
    uint8_t *out = rig->pieces ? pieces_make(content, content_size, old, old_size, size)
                               : delta_pack(content, content_size, old, old_size, size);
    memcpy(out, rig->pieces ? WIRE_DELTA_MAGIC : "\x5e\x2a\x4d\x18\x20\0\0\0", 8);
    memcpy(out + 8, exchange->dictionary.bytes, WIRE_SHA256_BYTES);
    out[8] ^= take(&rig->wrong_deltas) ? 1 : 0;
    if (take(&rig->large_deltas)) {
        out = realloc(out, *size + content_size);
        must(out != NULL, "memory");
        memset(out + *size, 0, content_size);
        *size += content_size;
    }
    rig->delta_answers++;
    return out;
}

// A body and how it ends.
struct answer {
    uint8_t *bytes; // with room for 1,000 more
    size_t send;
    enum base_status status;
    bool end;
};

static void spoil(struct rig *rig, struct answer *answer, struct dev_response_head *head)
{
    if (take(&rig->corrupt_bodies)) {
        answer->bytes[answer->send / 2] ^= 1;
    } else if (take(&rig->truncate_bodies)) {
        answer->send /= 2;
        head->content_bytes = UINT64_MAX;
    } else if (take(&rig->break_bodies)) {
        answer->send /= 2;
        answer->status = BASE_ERR_CLOSED;
    } else if (take(&rig->endless_bodies)) {
        memset(answer->bytes + answer->send, 'x', 1000);
        answer->send += 1000;
        head->content_bytes = UINT64_MAX;
    } else if (take(&rig->stall_bodies)) {
        answer->send /= 2;
        answer->end = false;
    }
    if (rig->cut_to > 0) {
        size_t span = rig->cut_to - rig->cut_from;
        size_t most = rig->cut_from + (size_t)base_prng_below(&rig->cuts, span);
        answer->status = answer->send > most ? BASE_ERR_CLOSED : answer->status;
        answer->send = answer->send > most ? most : answer->send;
    }
}

void rig_answer(struct rig *rig, struct mem_exchange *exchange, int status)
{
    answer_status(rig, exchange, status);
}

void rig_serve_content(struct rig *rig, struct mem_exchange *exchange, struct base_str hex)
{
    const uint8_t *content = NULL;
    size_t size = 0;
    uint64_t from = exchange->range_from;
    uint32_t id = exchange->id;
    rig->blob_requests++;
    rig->range_requests += from > 0 ? 1 : 0;
    if (rig->hold_deltas && !wire_sha256_is_zero(&exchange->dictionary)) {
        exchange->path[1] = 'X';
        return;
    }
    if (rig->blob_status != 0) {
        answer_status(rig, exchange, rig->blob_status);
        return;
    }
    if (!rig_content(rig, hex, &content, &size)) {
        answer_status(rig, exchange, 404);
        return;
    }
    uint8_t *delta = delta_make(rig, exchange, content, &size);
    content = delta != NULL ? delta : content;
    if (from >= size && from > 0) {
        free(delta);
        answer_status(rig, exchange, 416);
        return;
    }
    if (from > 0 && take(&rig->refuse_ranges)) {
        free(delta);
        answer_status(rig, exchange, 416);
        return;
    }
    if (from > 0 && take(&rig->ignore_ranges)) {
        from = 0;
    }
    struct dev_response_head head = {
        .status = from > 0 ? 206 : 200,
        .encoding = delta == NULL ? DEV_ENCODING_IDENTITY
                    : rig->pieces ? DEV_ENCODING_PIECES
                                  : DEV_ENCODING_DCZ,
        .content_bytes = size - from,
        .range_from = from,
    };
    if (from > 0 && take(&rig->wrong_ranges)) {
        head.range_from = from - 1;
    }
    uint8_t *copy = malloc(size - from + 1000);
    must(copy != NULL, "memory");
    memcpy(copy, content + from, size - from);
    free(delta);
    struct answer answer = {.bytes = copy, .send = size - from, .status = BASE_OK, .end = true};
    if (!rig->spoil_deltas || head.encoding != DEV_ENCODING_IDENTITY) {
        spoil(rig, &answer, &head);
    }
    if (rig->say_no_length) {
        head.content_bytes = UINT64_MAX;
    }
    dev_on_head(rig->runtime, id, &head);
    send_body(rig, exchange, copy, answer.send, answer.status, answer.end);
    free(copy);
    if (!answer.end && is_open(rig, exchange, id)) {
        exchange->path[1] = 'X'; // answered as far as it ever will be
    }
}

static bool asks_for_all(const struct mem_exchange *exchange)
{
    size_t size = strlen(exchange->path);
    return size > 6 && strcmp(exchange->path + size - 6, "/files") == 0;
}

static void serve_blob(struct rig *rig, struct mem_exchange *exchange)
{
    if (!asks_for_all(exchange)) {
        rig_serve_content(rig, exchange, base_str_of(exchange->path + strlen("/v1/blob/")));
    } else if (rig->whole != NULL) {
        rig->whole(rig, exchange);
    } else {
        answer_status(rig, exchange, 404);
    }
}

static bool serve_one(struct rig *rig)
{
    struct mem_exchange *exchange =
        rig->hold_checkins ? NULL : mem_exchange_find(&rig->port, "/v1/checkin");
    if (exchange != NULL) {
        serve_checkin(rig, exchange);
        return true;
    }
    exchange = mem_exchange_find(&rig->port, "/v1/report");
    if (exchange != NULL) {
        serve_report(rig, exchange);
        return true;
    }
    exchange = rig->meta != NULL ? mem_exchange_find(&rig->port, "/v1/meta/") : NULL;
    if (exchange != NULL) {
        rig->meta(rig, exchange);
        return true;
    }
    exchange = mem_exchange_find(&rig->port, "/v1/blob/");
    if (exchange != NULL) {
        serve_blob(rig, exchange);
        return true;
    }
    exchange = rig->exclusive != NULL ? mem_exchange_find(&rig->port, "/v1/exclusive/") : NULL;
    if (exchange != NULL) {
        rig->exclusive(rig, exchange);
        return true;
    }
    return false;
}

static bool finish_run(struct rig *rig)
{
    struct mem_run run = rig->port.task.current;
    if (run.run == 0 || rig->hold_runs || (rig->hold_shadows && run.shadow)) {
        return false;
    }
    rig->ran_unverified |= !run.all_verified;
    rig->port.task.current.run = 0;
    rig->last_run_files = run.file_count;
    rig->last_run_file = run.last_file;
    for (uint32_t i = 0; i < rig->version_count; i++) {
        struct rig_version *version = &rig->versions[i];
        if (wire_sha256_equal(&version->manifest, &run.version)) {
            bool fails = wire_outcome_is_failure(version->ends);
            struct dev_task_end end = {
                .outcome = version->ends,
                .duration_us = version->duration_us > 0 ? version->duration_us : 1500,
                .heap_peak_bytes = version->heap_peak_bytes,
                .result = fails || version->result == NULL ? (struct base_str){NULL, 0}
                                                           : base_str_of(version->result),
                .fingerprint = fails ? 77 : 0,
                .detail = fails ? base_str_of(version->failure != NULL
                                                  ? version->failure
                                                  : "ValueError: bad price (main.py:3)")
                                : (struct base_str){NULL, 0},
                .refused = version->refused,
                .cloud = version->cloud,
                .place = version->place,
            };
            version->runs++;
            version->shadow_runs += run.shadow ? 1 : 0;
            version->triggered_runs += run.token != 0 ? 1 : 0;
            version->tokens += run.token;
            dev_on_task_end(rig->runtime, run.run, &end);
            return true;
        }
    }
    must(false, "run of an unknown version");
    return false;
}

void rig_run(struct rig *rig, uint64_t us)
{
    uint64_t end_us = rig->port.clock.mono_us + us;
    for (int step = 0; step < 100000 && !rig->port.killed; step++) {
        uint64_t due_us = tick(rig);
        must(rig->port.killed || dev_validate(rig->runtime), "valid after tick");
        if (rig->port.killed) {
            return;
        }
        if (serve_one(rig) || finish_run(rig)) {
            continue;
        }
        if (!rig->run_on && dev_is_idle(rig->runtime) && rig->checkins > 0) {
            return;
        }
        if (due_us > end_us) {
            if (end_us > rig->port.clock.mono_us) {
                mem_clock_advance(&rig->port, end_us - rig->port.clock.mono_us);
            }
            return;
        }
        if (due_us > rig->port.clock.mono_us) {
            mem_clock_advance(&rig->port, due_us - rig->port.clock.mono_us);
        }
    }
}

void rig_checkin(struct rig *rig)
{
    dev_checkin_now(rig->runtime);
    rig->checkins = 0;
    rig_run(rig, 600 * 1000000ull);
}

static int version_index(const struct rig *rig, const struct wire_sha256 *digest)
{
    for (uint32_t i = 0; i < rig->version_count; i++) {
        if (wire_sha256_equal(&rig->versions[i].manifest, digest)) {
            return (int)i;
        }
    }
    return -1;
}

static bool view_of(const struct rig *rig, const char *task, struct dev_task_view *out)
{
    for (uint32_t i = 0; i < dev_task_count(rig->runtime); i++) {
        if (dev_task_view(rig->runtime, i, out) == BASE_OK && !out->shadow &&
            base_str_equal(out->name, base_str_of(task))) {
            return true;
        }
    }
    return false;
}

int rig_active(const struct rig *rig, const char *task)
{
    struct dev_task_view view;
    return view_of(rig, task, &view) ? version_index(rig, &view.active) : -1;
}

int rig_kept(const struct rig *rig, const char *task)
{
    struct dev_task_view view;
    return view_of(rig, task, &view) ? version_index(rig, &view.previous) : -1;
}

uint32_t rig_count(const struct rig *rig, enum wire_outcome_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->ledger_count; i++) {
        count += rig->ledger[i].outcome.kind == kind ? 1 : 0;
    }
    return count;
}

const struct rig_outcome *rig_last(const struct rig *rig, enum wire_outcome_kind kind)
{
    for (uint32_t i = rig->ledger_count; i > 0; i--) {
        if (rig->ledger[i - 1].outcome.kind == kind) {
            return &rig->ledger[i - 1];
        }
    }
    return NULL;
}
