// Stored form of a release, and its checks. Called by the control thread and at start: rollouts.c
// encodes and makes releases, rollout_state.c reads them from their rows; the few questions that
// depend on a release alone (does it let a device in, does it draw, has it a shadow) are answered
// here too, for plan, want and intake. Releases are counted, the last reference frees. What an
// older version of the row lacks gets the value it had by then; the layout is below.
#include "svc/plan/release.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/cursor.h"
#include "policy/bucket.h"
#include "policy/expr.h"
#include "svc/plan/stage_codec.h"
#include "wire/attrs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//   release := u8 version(12), u64 id, u64 salt, u64 counter, u32 timeout_s, u16 priority,
//              u64 arm_salt, u16 arm_from, u16 arm_to, u8 trust_unproven (6 lacks it: 0),
//              u32 checkin_interval_s (8 and below lack it: 0), manifest[32], text task, (7 and 6:
//              block way back: an envelope, or nothing,) target, varint stage_count, count x stage
//   stage   := text name, u8 kind, u16 max_bucket, conduct (stage_codec.c), block statement, target
//   target  := varint cond_count, count x { text attr, u8 op, varint operand_count, count x operand
//   }, text expression (of the targeting language, empty: none)
//   operand := u8 type, STRING or VERSION: text | INTEGER: zigzag | BOOLEAN: u8
//   text, block := varint size, bytes

#define SPEC_VERSION       12
#define SPEC_TRUST         7 // the first that says which devices count
#define SPEC_OLDEST        6
#define SPEC_WITHOUT_BACK  8  // the first without a signed way back
#define SPEC_INTERVAL      9  // the first with the interval
#define SPEC_VERDICTS      10 // the first that says what verdicts do
#define SPEC_OFFERED       11 // the first whose thresholds are of all that were offered it
#define SPEC_CLOUD         12 // the first with limits of decisions between device and cloud
#define SEMVER_NUMBERS_MAX 96
#define OPERAND_TEXT_MAX   256

// ---- Writing

static void write_text(struct base_writer *writer, const void *data, size_t size)
{
    base_writer_varint(writer, size);
    base_writer_bytes(writer, data, size);
}

static void write_semver(struct base_writer *writer, const struct pol_semver *v)
{
    char text[SEMVER_NUMBERS_MAX];
    int size = snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64 ".%" PRIu64, v->numbers[0],
                        v->numbers[1], v->numbers[2]);
    if (v->numbers[3] != 0) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, ".%" PRIu64, v->numbers[3]);
    }
    size_t pre = v->pre != NULL ? 1 + (size_t)v->pre_size : 0;
    base_writer_varint(writer, (size_t)size + pre);
    base_writer_bytes(writer, text, (size_t)size);
    if (pre > 0) {
        base_writer_bytes(writer, "-", 1);
        base_writer_bytes(writer, v->pre, v->pre_size);
    }
}

static void write_target(struct base_writer *writer, const struct pol_target *target)
{
    base_writer_varint(writer, target->cond_count);
    for (uint32_t i = 0; i < target->cond_count; i++) {
        const struct pol_cond *cond = &target->conds[i];
        write_text(writer, cond->attr.data, cond->attr.size);
        base_writer_u8(writer, (uint8_t)cond->op);
        base_writer_varint(writer, cond->operand_count);
        for (uint32_t k = 0; k < cond->operand_count; k++) {
            const struct pol_value *value = &cond->operands[k];
            base_writer_u8(writer, (uint8_t)value->type);
            switch (value->type) {
            case POL_TYPE_STRING:
                write_text(writer, value->text.data, value->text.size);
                break;
            case POL_TYPE_VERSION:
                write_semver(writer, &value->version);
                break;
            case POL_TYPE_INTEGER:
                base_writer_zigzag(writer, value->integer);
                break;
            case POL_TYPE_BOOLEAN:
            case POL_TYPE_COUNT:
                base_writer_u8(writer, value->boolean ? 1 : 0);
                break;
            }
        }
    }
    struct pol_text text = {NULL, 0};
    if (target->expr != NULL) {
        text = pol_expr_text(target->expr);
    }
    write_text(writer, text.data, text.size);
}

// A report comes with the run, or with one of the check-ins behind it.
static uint32_t window_of(const struct pol_stage *stage, uint32_t timeout_s,
                          uint32_t checkin_interval_s)
{
    uint64_t own_s = stage->execution_timeout_s != 0 ? stage->execution_timeout_s : timeout_s;
    uint64_t window_s = own_s + (uint64_t)GW_STAGE_WINDOW_TIMES * checkin_interval_s;
    return window_s < POL_STAGE_WINDOW_S_MAX ? (uint32_t)window_s : POL_STAGE_WINDOW_S_MAX;
}

static void fill_defaults(struct pol_stage *stage, uint32_t timeout_s, uint32_t checkin_interval_s)
{
    if (stage->window_s == 0) {
        stage->window_s = window_of(stage, timeout_s, checkin_interval_s);
    }
    if (stage->silence_s == GW_STAGE_DEFAULT_S) {
        stage->silence_s = checkin_interval_s * GW_STAGE_SILENCE_TIMES;
    }
    if (stage->observe_s == GW_STAGE_DEFAULT_S) {
        stage->observe_s = checkin_interval_s * GW_STAGE_OBSERVE_TIMES;
    }
}

static void write_spec(struct base_writer *writer, const struct gw_rollout_spec *spec,
                       uint32_t checkin_interval_s)
{
    base_writer_u8(writer, SPEC_VERSION);
    base_writer_u64(writer, spec->id);
    base_writer_u64(writer, spec->salt);
    base_writer_u64(writer, spec->release_counter);
    uint32_t timeout_s =
        spec->execution_timeout_s != 0 ? spec->execution_timeout_s : GW_EXECUTION_TIMEOUT_S;
    base_writer_u32(writer, timeout_s);
    base_writer_u16(writer, spec->priority);
    base_writer_u64(writer, spec->arm.salt);
    base_writer_u16(writer, spec->arm.from);
    base_writer_u16(writer, spec->arm.to);
    base_writer_u8(writer, spec->trust_unproven ? 1 : 0);
    base_writer_u32(writer, checkin_interval_s);
    base_writer_bytes(writer, spec->manifest.bytes, WIRE_SHA256_BYTES);
    write_text(writer, spec->task.data, spec->task.size);
    write_target(writer, &spec->target);
    base_writer_varint(writer, spec->stage_count);
    for (uint32_t i = 0; i < spec->stage_count; i++) {
        const struct gw_stage_spec *stage = &spec->stages[i];
        write_text(writer, stage->name.data, stage->name.size);
        base_writer_u8(writer, (uint8_t)stage->stage.kind);
        base_writer_u16(writer, stage->stage.max_bucket);
        struct pol_stage conduct = stage->stage;
        fill_defaults(&conduct, timeout_s, checkin_interval_s);
        gw_stage_write(writer, &conduct);
        write_text(writer, stage->statement, stage->statement_bytes);
        write_target(writer, &stage->stage.audience);
    }
}

enum base_status gw_release_encode(const struct gw_rollout_spec *spec, uint32_t checkin_interval_s,
                                   struct base_buffer *out, struct base_error *error)
{
    if (spec->stage_count == 0 || spec->stage_count > POL_STAGES_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "stages: 1 to %u", POL_STAGES_MAX);
    }
    uint8_t *bytes = malloc(GW_ROLLOUT_SPEC_BYTES_MAX);
    if (bytes == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_writer writer;
    base_writer_init(&writer, bytes, GW_ROLLOUT_SPEC_BYTES_MAX);
    write_spec(&writer, spec, checkin_interval_s);
    enum base_status status = writer.status;
    if (status == BASE_OK) {
        status = base_buffer_add(out, bytes, base_writer_size(&writer));
    } else {
        (void)base_error_set(error, status, "rollout: over %u bytes", GW_ROLLOUT_SPEC_BYTES_MAX);
    }
    free(bytes);
    return status;
}

// ---- Reading

struct parse {
    struct base_reader reader;
    struct base_arena *arena;
    struct base_error *error;
    bool floor_known; // a statement said it; the others say the same
};

static struct base_str read_text(struct parse *parse, size_t size_max)
{
    size_t size = (size_t)base_reader_varint_max(&parse->reader, size_max);
    const uint8_t *data = base_reader_bytes(&parse->reader, size);
    return (struct base_str){(const char *)data, data != NULL ? size : 0};
}

static void read_operand(struct parse *parse, struct pol_value *value)
{
    uint8_t type = base_reader_u8(&parse->reader);
    struct base_str text;
    *value = (struct pol_value){.type = POL_TYPE_BOOLEAN};
    switch (type) {
    case POL_TYPE_STRING:
        text = read_text(parse, OPERAND_TEXT_MAX);
        value->type = POL_TYPE_STRING;
        value->text = (struct pol_text){text.data, (uint32_t)text.size};
        break;
    case POL_TYPE_VERSION:
        text = read_text(parse, OPERAND_TEXT_MAX);
        value->type = POL_TYPE_VERSION;
        if (!pol_semver_parse(text.data, (uint32_t)text.size, &value->version)) {
            base_reader_fail(&parse->reader, BASE_ERR_INVALID);
        }
        break;
    case POL_TYPE_INTEGER:
        value->type = POL_TYPE_INTEGER;
        value->integer = base_reader_zigzag(&parse->reader);
        break;
    case POL_TYPE_BOOLEAN:
        value->boolean = base_reader_u8(&parse->reader) != 0;
        break;
    default:
        base_reader_fail(&parse->reader, BASE_ERR_INVALID);
        break;
    }
}

static enum base_status read_cond(struct parse *parse, struct pol_cond *cond)
{
    struct base_str attr = read_text(parse, WIRE_ATTR_NAME_MAX);
    cond->attr = (struct pol_text){attr.data, (uint32_t)attr.size};
    uint8_t op = base_reader_u8(&parse->reader);
    if (op >= POL_OP_COUNT) {
        base_reader_fail(&parse->reader, BASE_ERR_INVALID);
        op = POL_OP_EQ;
    }
    cond->op = (enum pol_op)op;
    cond->operand_count = (uint32_t)base_reader_varint_max(&parse->reader, POL_TARGET_OPERANDS_MAX);
    struct pol_value *operands =
        base_arena_zalloc(parse->arena, (cond->operand_count + 1) * sizeof(*operands));
    if (operands == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < cond->operand_count; i++) {
        read_operand(parse, &operands[i]);
    }
    cond->operands = operands;
    return BASE_OK;
}

// Programs are not stored: the text is compiled again, into the release's arena.
static enum base_status read_expr(struct parse *parse, const struct pol_expr **out_expr,
                                  const char *where)
{
    struct base_str stored = read_text(parse, POL_EXPR_TEXT_MAX);
    struct pol_text text = {stored.data, (uint32_t)stored.size};
    struct pol_expr_error said = {0};
    size_t bytes = 0;
    if (parse->reader.status != BASE_OK || stored.size == 0) {
        return BASE_OK; // the caller looks at the reader
    }
    bool ok = pol_expr_compile(text, (struct pol_expr_space){NULL, 0}, out_expr, &bytes, &said);
    if (ok) {
        void *memory = base_arena_alloc(parse->arena, bytes);
        if (memory == NULL) {
            return BASE_ERR_NOMEM;
        }
        ok =
            pol_expr_compile(text, (struct pol_expr_space){memory, bytes}, out_expr, &bytes, &said);
    }
    if (!ok) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: line %u, column %u: %s", where,
                              said.line, said.column, said.message);
    }
    return BASE_OK;
}

static enum base_status read_target(struct parse *parse, struct pol_target *target,
                                    const char *where)
{
    uint32_t count = (uint32_t)base_reader_varint_max(&parse->reader, POL_TARGET_CONDS_MAX);
    struct pol_cond *conds = base_arena_zalloc(parse->arena, (count + 1) * sizeof(*conds));
    if (conds == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(read_cond(parse, &conds[i]));
    }
    const struct pol_expr *expr = NULL;
    BASE_TRY(read_expr(parse, &expr, where));
    if (parse->reader.status != BASE_OK) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: a condition is malformed",
                              where);
    }
    *target = (struct pol_target){.conds = conds, .cond_count = count, .expr = expr};
    uint32_t bad = 0;
    enum pol_reason reason = pol_target_check(target, &bad);
    if (reason != POL_REASON_MATCHED && reason != POL_REASON_NO_CONDITIONS) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: condition %u: %s", where,
                              bad + 1, pol_reason_text(reason));
    }
    return BASE_OK;
}

// Printable ASCII, no space at either end: it is shown to people.
static bool stage_name_ok(struct base_str name)
{
    if (name.size == 0 || name.size > GW_STAGE_NAME_MAX || name.data[0] == ' ' ||
        name.data[name.size - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < 0x20 || name.data[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static enum base_status read_stage(struct parse *parse, struct gw_release *release, uint32_t index,
                                   uint8_t version)
{
    struct pol_stage *stage = &release->stages[index];
    struct base_str name = read_text(parse, GW_STAGE_NAME_MAX);
    uint8_t kind = base_reader_u8(&parse->reader);
    stage->max_bucket = base_reader_u16(&parse->reader);
    gw_stage_read(&parse->reader,
                  version >= SPEC_CLOUD      ? GW_STAGE_CLOUD
                  : version >= SPEC_VERDICTS ? GW_STAGE_VERDICTS
                                             : GW_STAGE_OLDEST,
                  stage);
    stage->gate.of_offered = version >= SPEC_OFFERED;
    struct base_str statement = read_text(parse, GW_STATEMENT_BYTES_MAX);
    char where[64];
    snprintf(where, sizeof(where), "stage %u: audience", index + 1);
    BASE_TRY(read_target(parse, &stage->audience, where));
    if (parse->reader.status != BASE_OK || !stage_name_ok(name)) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "stage %u: name: 1 to %u printable ASCII characters", index + 1,
                              GW_STAGE_NAME_MAX);
    }
    if (kind >= POL_STAGE_KIND_COUNT) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "stage %u: unknown kind", index + 1);
    }
    stage->kind = (enum pol_stage_kind)kind;
    if (stage->execution_timeout_s == 0) {
        stage->execution_timeout_s = release->execution_timeout_s;
    }
    memcpy(release->stage_names[index], name.data, name.size);
    release->statements[index] =
        (struct gw_statement){.bytes = (const uint8_t *)statement.data, .size = statement.size};
    return BASE_OK;
}

// The counter of a statement that led back. Such statements are no more, but devices with a root
// were told of the counter as listed, and expect that none goes back.
static uint64_t back_counter(struct base_str envelope_bytes)
{
    struct wire_envelope envelope;
    struct base_reader reader;
    if (wire_envelope_parse((const uint8_t *)envelope_bytes.data, envelope_bytes.size, &envelope) !=
            BASE_OK ||
        envelope.type != WIRE_ENVELOPE_TYPE_RELEASE) {
        return 0;
    }
    base_reader_init(&reader, envelope.payload, envelope.payload_bytes);
    (void)base_reader_u8(&reader); // its kind
    (void)base_reader_bytes(&reader, base_reader_u8(&reader));
    return base_reader_u64(&reader);
}

static enum base_status read_release(struct parse *parse, struct gw_release *release)
{
    struct base_reader *reader = &parse->reader;
    uint8_t version = base_reader_u8(reader);
    if (version < SPEC_OLDEST || version > SPEC_VERSION) {
        return base_error_set(parse->error, BASE_ERR_UNSUPPORTED, "rollout: unknown version");
    }
    release->id = base_reader_u64(reader);
    release->salt = base_reader_u64(reader);
    release->release_counter = base_reader_u64(reader);
    release->execution_timeout_s = base_reader_u32(reader);
    release->priority = base_reader_u16(reader);
    release->arm.salt = base_reader_u64(reader);
    release->arm.from = base_reader_u16(reader);
    release->arm.to = base_reader_u16(reader);
    release->trust_unproven = version >= SPEC_TRUST && base_reader_u8(reader) != 0;
    release->checkin_interval_s = version >= SPEC_INTERVAL ? base_reader_u32(reader) : 0;
    base_reader_copy(reader, release->manifest.bytes, WIRE_SHA256_BYTES);
    struct base_str task = read_text(parse, WIRE_TASK_NAME_MAX);
    if (version < SPEC_WITHOUT_BACK) {
        release->back_counter = back_counter(read_text(parse, GW_STATEMENT_BYTES_MAX));
    }
    // What a task may be called is asked when it is made; an older one keeps its rollouts.
    if (reader->status != BASE_OK || task.size == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "rollout: bad task name or sizes");
    }
    if (release->id == 0 || release->release_counter == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "rollout: id and release_counter must not be 0");
    }
    if (release->priority > GW_PRIORITY_MAX) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "priority: at most %u",
                              GW_PRIORITY_MAX);
    }
    if (!pol_arm_check(&release->arm, release->salt)) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "arm: from below to, to at most 100 %%, and a salt that is not the "
                              "rollout's");
    }
    memcpy(release->task, task.data, task.size);
    release->task_id = wire_task_id(task);
    release->version_id = wire_version_id(&release->manifest);
    BASE_TRY(read_target(parse, &release->target, "target"));
    release->stage_count = (uint32_t)base_reader_varint_max(reader, POL_STAGES_MAX);
    for (uint32_t i = 0; i < release->stage_count; i++) {
        BASE_TRY(read_stage(parse, release, i, version));
    }
    if (base_reader_finish(reader) != BASE_OK) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "rollout: malformed");
    }
    enum pol_reason reason = pol_stages_check(release->stages, release->stage_count);
    uint32_t bad = pol_stages_reach_check(release->stages, release->stage_count);
    if (bad < release->stage_count) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "stages[%u] (%s): a full stage has 100 percent, and a gray one no "
                              "fewer than the gray one before it",
                              bad, release->stage_names[bad]);
    }
    if (reason != POL_REASON_MATCHED) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "stages: %s",
                              pol_reason_text(reason));
    }
    return BASE_OK;
}

// ---- Statements: they must parse and say what the rollout says. Signatures are the device's to
// verify.

static enum base_status parse_statement(struct parse *parse, struct gw_statement statement,
                                        const char *where, struct wire_release *out)
{
    struct wire_envelope envelope;
    if (wire_envelope_parse(statement.bytes, statement.size, &envelope) != BASE_OK ||
        envelope.type != WIRE_ENVELOPE_TYPE_RELEASE) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: not a release statement", where);
    }
    enum base_status status = wire_release_parse(envelope.payload, envelope.payload_bytes, out);
    if (status == BASE_ERR_UNSUPPORTED) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: release of kind %u: not known",
                              where, wire_release_kind(envelope.payload, envelope.payload_bytes));
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(parse->error, BASE_ERR_INVALID, "%s: not a release statement: %s",
                                where, base_status_text(status));
}

static enum base_status check_common(struct parse *parse, const struct gw_release *release,
                                     const struct wire_release *said, uint64_t counter,
                                     const char *where)
{
    const char *wrong = NULL;
    if (!base_str_equal(said->task_name, base_str_of(release->task))) {
        wrong = "task";
    } else if (said->release_counter != counter) {
        wrong = "release_counter";
    } else if (said->rollout_id != release->id) {
        wrong = "rollout id";
    } else if (said->salt != release->salt) {
        wrong = "salt";
    }
    if (wrong != NULL) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: %s differs from the rollout's",
                              where, wrong);
    }
    return BASE_OK;
}

static enum base_status check_install(struct parse *parse, struct gw_release *release,
                                      uint32_t index)
{
    const struct pol_stage *stage = &release->stages[index];
    char where[64];
    snprintf(where, sizeof(where), "stage %u: statement", index + 1);
    if (stage->kind == POL_STAGE_SIMULATE) {
        return BASE_OK; // nothing is offered in it
    }
    struct wire_release said;
    BASE_TRY(parse_statement(parse, release->statements[index], where, &said));
    BASE_TRY(check_common(parse, release, &said, release->release_counter, where));
    struct wire_tolerances tolerances;
    gw_stage_tolerances(stage, &tolerances);
    const char *wrong = NULL;
    release->floor = parse->floor_known ? release->floor : said.floor;
    release->approved_s = parse->floor_known ? release->approved_s : said.issued_s;
    parse->floor_known = true;
    if (!wire_sha256_equal(&said.manifest, &release->manifest)) {
        wrong = "manifest differs from the rollout's";
    } else if (said.max_bucket != stage->max_bucket) {
        wrong = "max_bucket differs from the stage's";
    } else if (said.arm_salt != release->arm.salt || said.arm_from != release->arm.from ||
               said.arm_to != release->arm.to) {
        wrong = "arm differs from the rollout's";
    } else if (said.stage_kind != stage->kind) {
        wrong = "stage kind differs from the stage's";
    } else if (said.shadow_slow_percent != stage->shadow_slow_percent ||
               said.shadow_memory_percent != stage->shadow_memory_percent) {
        wrong = "max_slowdown or max_memory differs from the stage's";
    } else if (!wire_tolerances_equal(&said.tolerances, &tolerances)) {
        wrong = "tolerance differs from the stage's";
    } else if (said.floor != release->floor) {
        wrong = "floor differs from an earlier stage's";
    }
    if (wrong != NULL) {
        return base_error_set(parse->error, BASE_ERR_INVALID, "%s: %s", where, wrong);
    }
    release->statements[index].expires_s = said.expires_s;
    release->statements[index].manifest_bytes = said.manifest_bytes;
    return BASE_OK;
}

static enum base_status fill_release(struct gw_release *release, const uint8_t *bytes, size_t size,
                                     struct base_error *error)
{
    if (size > GW_ROLLOUT_SPEC_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "rollout: over %u bytes",
                              GW_ROLLOUT_SPEC_BYTES_MAX);
    }
    uint8_t *copy = base_arena_copy(&release->hold->arena, bytes, size);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    release->spec = copy;
    release->spec_bytes = size;
    struct parse parse = {.arena = &release->hold->arena, .error = error};
    base_reader_init(&parse.reader, copy, size);
    BASE_TRY(read_release(&parse, release));
    for (uint32_t i = 0; i < release->stage_count; i++) {
        BASE_TRY(check_install(&parse, release, i));
    }
    return BASE_OK;
}

// One block: the release, and before it who has it.
struct block {
    struct gw_release_hold hold;
    struct gw_release release;
};

struct gw_release *gw_release_blank(void)
{
    struct block *block = calloc(1, sizeof(*block));
    if (block == NULL) {
        return NULL;
    }
    atomic_init(&block->hold.refs, 1);
    base_arena_init(&block->hold.arena, base_alloc_heap(), 0, 0);
    block->release.hold = &block->hold;
    return &block->release;
}

enum base_status gw_release_new(const uint8_t *bytes, size_t size,
                                const struct gw_release **out_release, struct base_error *error)
{
    struct gw_release *release = gw_release_blank();
    if (release == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = fill_release(release, bytes, size, error);
    if (status != BASE_OK) {
        gw_release_unref(release);
        return status;
    }
    *out_release = release;
    return BASE_OK;
}

const struct gw_release *gw_release_ref(const struct gw_release *release)
{
    atomic_fetch_add_explicit(&release->hold->refs, 1, memory_order_relaxed);
    return release;
}

void gw_release_unref(const struct gw_release *release)
{
    if (release == NULL) {
        return;
    }
    struct gw_release_hold *hold = release->hold;
    uint32_t before = atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel);
    base_assert(before > 0);
    if (before == 1) {
        base_arena_done(&hold->arena);
        free(hold); // the block begins with it
    }
}

uint8_t gw_release_stage(const struct gw_release *release, uint32_t newest, bool shadow)
{
    uint32_t last = newest < release->stage_count ? newest : release->stage_count - 1;
    for (uint32_t i = last + 1; i > 0; i--) {
        if ((release->stages[i - 1].kind == POL_STAGE_SHADOW) == shadow) {
            return (uint8_t)(i - 1);
        }
    }
    return (uint8_t)last;
}

static bool has(const struct pol_target *target, const struct pol_attrs *attrs)
{
    return attrs == NULL || pol_target_match(target, attrs).matched;
}

uint32_t gw_release_lets_in(const struct gw_release *release, uint32_t newest, bool shadow,
                            uint64_t device_id, const struct pol_attrs *attrs)
{
    uint16_t bucket = pol_bucket(device_id, release->salt);
    uint32_t first = shadow ? newest : 0;
    for (uint32_t i = newest + 1; i > first; i--) {
        const struct pol_stage *stage = &release->stages[i - 1];
        bool fits =
            stage->kind != POL_STAGE_SIMULATE && (stage->kind == POL_STAGE_SHADOW) == shadow;
        if (fits && bucket < stage->max_bucket && has(&stage->audience, attrs)) {
            return i - 1;
        }
    }
    return GW_STAGE_NONE;
}

static bool reaches(const struct gw_release *release, uint64_t device_id,
                    const struct pol_attrs *attrs)
{
    return pol_arm_has(&release->arm, device_id) && has(&release->target, attrs);
}

bool gw_release_draws(const struct gw_release *release, uint32_t stage, uint64_t device_id,
                      const struct pol_attrs *attrs)
{
    struct pol_trial_span span;
    uint16_t bucket = pol_bucket(device_id, release->salt);
    return pol_stage_trial(release->stages, stage, &span) && bucket >= span.middle &&
           bucket < span.to && reaches(release, device_id, attrs) &&
           has(&release->stages[stage].audience, attrs);
}

bool gw_release_is_for(const struct gw_release *release, uint32_t newest, bool shadow,
                       uint64_t device_id, const struct pol_attrs *attrs)
{
    return reaches(release, device_id, attrs) &&
           gw_release_lets_in(release, newest, shadow, device_id, attrs) != GW_STAGE_NONE;
}

bool gw_release_has_shadow(const struct gw_release *release)
{
    bool has = false;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        has = has || release->stages[i].kind == POL_STAGE_SHADOW;
    }
    return has;
}
