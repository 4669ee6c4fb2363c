// Reads both files into sorted tables and walks them side by side: what devices say of their
// records against the gateway's log. Called by fleet_main.c for `walle-fleet-sim law`, on the main
// thread, once; no shard and no gateway runs. At most SHOWN_MAX findings are told one by one, the
// rest is counted; a table grows up to SIM_LAW_RECORDS_MAX items.
#include "compare/fleet_law.h"

#include "model/sim_exit.h"

#include "base/os/regular_file.h"
#include "wire/digest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 10 // findings told one by one
#define LAW_LINE_MAX                                                                               \
    (1024 * 1024 + 4096) // bytes of a line: a record as `walle tunnel export` has it

struct law_record {
    uint64_t device;
    uint64_t seq;
    uint64_t lost; // of a LOSS
    uint32_t epoch;
    uint32_t class_id;
    bool is_loss;
};

struct law_row {
    uint64_t device;
    uint32_t class_id;
    uint64_t durable;
    uint64_t queued;
    uint64_t lost;
};

// What the gateway has of one device and class.
struct law_group {
    uint64_t records;
    uint64_t lost;
    uint64_t twice;
};

struct law_table {
    void *items;
    size_t item_bytes;
    size_t count;
    size_t capacity;
};

struct law_check {
    FILE *log;
    struct law_table records;
    struct law_table rows;
    uint64_t record_count;
    uint64_t other_devices; // with records at the gateway, and none of the run's
    uint64_t other_records;
    uint64_t findings;
};

static void *table_add(struct law_table *table)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity > 0 ? table->capacity * 2 : 1024;
        void *items = realloc(table->items, capacity * table->item_bytes);
        if (items == NULL || table->count >= SIM_LAW_RECORDS_MAX) {
            table->items = items != NULL ? items : table->items;
            return NULL;
        }
        table->items = items;
        table->capacity = capacity;
    }
    return (char *)table->items + table->item_bytes * table->count++;
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right)
{
    const struct law_record *a = left;
    const struct law_record *b = right;
    int order = order_u64(a->device, b->device);
    order = order != 0 ? order : order_u64(a->class_id, b->class_id);
    order = order != 0 ? order : order_u64(a->epoch, b->epoch);
    return order != 0 ? order : order_u64(a->seq, b->seq);
}

static int by_device(const void *left, const void *right)
{
    const struct law_row *a = left;
    const struct law_row *b = right;
    int order = order_u64(a->device, b->device);
    return order != 0 ? order : order_u64(a->class_id, b->class_id);
}

// ---- Reading

static bool record_parse(const char *line, size_t size, struct law_record *out)
{
    json_t *root = json_loadb(line, size, 0, NULL);
    const json_t *device = json_object_get(root, "device");
    const json_t *seq = json_object_get(root, "seq");
    const json_t *epoch = json_object_get(root, "epoch");
    const json_t *class_id = json_object_get(root, "class");
    bool ok = json_is_string(device) && json_is_integer(seq) && json_is_integer(epoch) &&
              json_is_integer(class_id) &&
              wire_device_parse(base_str_of(json_string_value(device)), &out->device) == BASE_OK;
    const json_t *lost = json_object_get(root, "lost");
    const char *reason = json_string_value(json_object_get(root, "reason"));
    bool split = reason != NULL && strcmp(reason, "split") == 0; // nothing is lost
    ok = ok && (lost == NULL || (json_is_integer(lost) && json_integer_value(lost) > 0));
    out->is_loss = lost != NULL;
    out->lost = split ? 0 : (uint64_t)json_integer_value(lost);
    out->seq = (uint64_t)json_integer_value(seq);
    out->epoch = (uint32_t)json_integer_value(epoch);
    out->class_id = (uint32_t)json_integer_value(class_id);
    json_decref(root);
    return ok;
}

// Field `index` of a line of CSV without quotes.
static struct base_str field(struct base_str line, uint32_t index)
{
    while (index > 0 && line.size > 0) {
        index -= line.data[0] == ',' ? 1 : 0;
        line.data++;
        line.size--;
    }
    const char *end = line.size > 0 ? memchr(line.data, ',', line.size) : NULL;
    line.size = end != NULL ? (size_t)(end - line.data) : line.size;
    return line;
}

// device,class,epoch,offered,produced,durable,queued,lost
static bool row_parse(const char *text, size_t size, struct law_row *out)
{
    struct base_str line = {text, size};
    uint64_t class_id = 0;
    bool ok = wire_device_parse(field(line, 0), &out->device) == BASE_OK &&
              base_str_u64(field(line, 1), &class_id) == BASE_OK &&
              base_str_u64(field(line, 5), &out->durable) == BASE_OK &&
              base_str_u64(field(line, 6), &out->queued) == BASE_OK &&
              base_str_u64(field(line, 7), &out->lost) == BASE_OK;
    out->class_id = (uint32_t)class_id;
    return ok;
}

// What is wrong with a line; NULL: it was taken.
static const char *line_take(struct law_check *check, const char *line, size_t size, bool rows)
{
    if (size == 0) { // it begins with a NUL: of a file with a hole perhaps, which may be endless
        return "no text";
    }
    if (size == LAW_LINE_MAX - 1 && line[size - 1] != '\n') {
        return "longer than a record is";
    }
    size -= size > 0 && line[size - 1] == '\n' ? 1 : 0;
    if (size == 0) {
        return NULL;
    }
    void *item = table_add(rows ? &check->rows : &check->records);
    if (item == NULL) {
        return "too many lines";
    }
    if (rows) {
        return row_parse(line, size, item) ? NULL : "no row of a run's tunnel.csv";
    }
    return record_parse(line, size, item) ? NULL : "no record of `walle tunnel export`";
}

// Every line of a file; the first of a table of rows is its head.
static bool file_read(struct law_check *check, const char *path, bool rows)
{
    struct base_error error = {0};
    FILE *file = NULL;
    const char *wrong = NULL;
    uint64_t number = 0;
    char *line = malloc(LAW_LINE_MAX);
    if (line == NULL || base_regular_stream(path, &file, &error) != BASE_OK) {
        (void)fprintf(check->log, "walle-fleet-sim: %s\n",
                      line == NULL ? "out of memory" : error.text);
        free(line);
        return false;
    }
    while (wrong == NULL && fgets(line, LAW_LINE_MAX, file) != NULL) {
        number++;
        if (!rows || number > 1) {
            wrong = line_take(check, line, strlen(line), rows);
        }
    }
    if (wrong != NULL) {
        (void)fprintf(check->log, "walle-fleet-sim: %s, line %llu: %s\n", path,
                      (unsigned long long)number, wrong);
    }
    free(line);
    (void)fclose(file);
    return wrong == NULL;
}

// ---- Comparing

static void found(struct law_check *check, uint64_t device, uint32_t class_id, const char *text)
{
    check->findings++;
    if (check->findings <= SHOWN_MAX) {
        (void)fprintf(check->log, "BROKEN: device %016llx, class %u: %s\n",
                      (unsigned long long)device, class_id, text);
    }
}

static void row_check(struct law_check *check, const struct law_row *row,
                      const struct law_group *group)
{
    char text[160];
    uint64_t count = group->records;
    for (uint64_t i = 0; i < group->twice; i++) {
        found(check, row->device, row->class_id, "the gateway has a record twice");
    }
    if (group->lost > row->lost) {
        (void)snprintf(text, sizeof(text),
                       "the gateway was told of %llu lost records, the device of %llu",
                       (unsigned long long)group->lost, (unsigned long long)row->lost);
        found(check, row->device, row->class_id, text);
    }
    if (count < row->durable || count > row->durable + row->queued) {
        (void)snprintf(text, sizeof(text),
                       "the gateway has %llu records, the device knows of %llu durable and %llu "
                       "queued",
                       (unsigned long long)count, (unsigned long long)row->durable,
                       (unsigned long long)row->queued);
        found(check, row->device, row->class_id, text);
    }
}

// Records of one device and class from `at` on; their end.
static size_t group_take(const struct law_check *check, size_t at, struct law_group *out)
{
    const struct law_record *records = check->records.items;
    size_t end = at;
    *out = (struct law_group){0};
    while (end < check->records.count && records[end].device == records[at].device &&
           records[end].class_id == records[at].class_id) {
        out->records += records[end].is_loss ? 0 : 1;
        out->lost += records[end].lost;
        out->twice += end > at && by_place(&records[end], &records[end - 1]) == 0;
        end++;
    }
    return end;
}

// Was this device one of the run's? Its rows, if any, are around `row`.
static bool is_of_run(const struct law_check *check, size_t row, uint64_t device)
{
    const struct law_row *rows = check->rows.items;
    return (row < check->rows.count && rows[row].device == device) ||
           (row > 0 && rows[row - 1].device == device);
}

// An agent's, another run's: their records are nothing that this run's law says anything of.
static void other_take(struct law_check *check, size_t at, const struct law_group *group)
{
    const struct law_record *records = check->records.items;
    bool first = at == 0 || records[at - 1].device != records[at].device;
    check->other_devices += first ? 1 : 0;
    check->other_records += group->records;
}

static void compare(struct law_check *check)
{
    const struct law_record *records = check->records.items;
    const struct law_row *rows = check->rows.items;
    const struct law_group nothing = {0};
    size_t row = 0;
    for (size_t at = 0; at < check->records.count;) {
        struct law_group group;
        size_t end = group_take(check, at, &group);
        struct law_row key = {.device = records[at].device, .class_id = records[at].class_id};
        while (row < check->rows.count && by_device(&rows[row], &key) < 0) {
            row_check(check, &rows[row++], &nothing);
        }
        if (row < check->rows.count && by_device(&rows[row], &key) == 0) {
            row_check(check, &rows[row++], &group);
            check->record_count += group.records;
        } else if (is_of_run(check, row, key.device)) {
            found(check, key.device, key.class_id,
                  "records of a class of which the device made none in the run");
            check->record_count += group.records;
        } else {
            other_take(check, at, &group);
        }
        at = end;
    }
    while (row < check->rows.count) {
        row_check(check, &rows[row++], &nothing);
    }
}

int sim_law_main(int argc, char **argv, FILE *log)
{
    struct law_check check = {.log = log,
                              .records = {.item_bytes = sizeof(struct law_record)},
                              .rows = {.item_bytes = sizeof(struct law_row)}};
    if (argc != 3 || argv[1][0] == '-') {
        bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fprintf(asked ? log : stderr,
                      "Usage: walle-fleet-sim law TUNNEL_CSV RECORDS\n"
                      "Compares a run's tunnel.csv with what `walle tunnel export --out RECORDS` "
                      "wrote.\n");
        return asked ? SIM_EXIT_OK : SIM_EXIT_USAGE;
    }
    int code = SIM_EXIT_LOCAL;
    if (file_read(&check, argv[1], true) && file_read(&check, argv[2], false)) {
        if (check.records.count > 0) {
            qsort(check.records.items, check.records.count, sizeof(struct law_record), by_place);
        }
        if (check.rows.count > 0) {
            qsort(check.rows.items, check.rows.count, sizeof(struct law_row), by_device);
        }
        compare(&check);
        if (check.other_records > 0) {
            (void)fprintf(
                log, "%llu records of %llu other devices are not of the run: not judged\n",
                (unsigned long long)check.other_records, (unsigned long long)check.other_devices);
        }
        (void)fprintf(log,
                      "%s: %llu records at the gateway, %zu accounts of devices, %llu findings\n",
                      check.findings == 0 ? "the law holds" : "the law is BROKEN",
                      (unsigned long long)check.record_count, check.rows.count,
                      (unsigned long long)check.findings);
        code = check.findings == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
    }
    free(check.records.items);
    free(check.rows.items);
    return code;
}
