// Bytes that a run is given by name (vm/given/vm_given.c): data files and what the host hands over.
// What scripts see, what is refused and how it is said, what counts. The same runs are made behind
// the wall (hardening_04_wall_vm_given).
#include "vm_kit.h"

static const struct dev_vm_bytes files[] = {
    {.name = {"labels.txt", 10}, .bytes = (const uint8_t *)"cup\nbowl\n", .size = 9},
    {.name = {"empty", 5}, .bytes = (const uint8_t *)"", .size = 0},
    {.name = {"nothing", 7}, .bytes = NULL, .size = 0},
    {.name = {"large.bin", 9}, .bytes = NULL, .size = 5000000},
};
static const uint8_t frame[40000] = {0xff, 0xd8, 0x00, 0xff};

static void given_fill(struct vm_kit *kit)
{
    static const struct dev_vm_bytes blobs[] = {
        {.name = {"camera", 6}, .bytes = frame, .size = sizeof(frame)}};
    kit->job.files = files;
    kit->job.file_count = sizeof(files) / sizeof(files[0]);
    kit->job.blobs = blobs;
    kit->job.blob_count = 1;
}

static void result_is(struct vm_kit *kit, const char *source, const char *result)
{
    kit_run_source(kit, source);
    if (kit->result.end != DEV_VM_FINISHED) {
        fail_msg("%s: %s", kit->result.type, kit->result.message);
    }
    assert_int_equal(kit->result.result.size, strlen(result));
    assert_memory_equal(kit->result.result.data, result, strlen(result));
}

static void bytes_come_as_they_are(void **state)
{
    struct vm_kit kit;
    (void)state;
    kit_init(&kit, 256);
    given_fill(&kit);
    result_is(
        &kit,
        "import walle\n"
        "labels = walle.file('labels.txt')\n"
        "walle.result([type(labels) is bytes, labels.decode().split(), len(walle.file('empty')),"
        " len(walle.file('nothing')), list(walle.files())])\n",
        "[true,[\"cup\",\"bowl\"],0,0,[\"labels.txt\",\"empty\",\"nothing\",\"large.bin\"]]");
    assert_false(kit.result.looked); // of the version, as its models are
    result_is(&kit,
              "import walle\n"
              "b = walle.blob('camera')\n"
              "walle.result([len(b), b[0], b[3], b[-1], list(walle.blobs())])\n",
              "[40000,255,255,0,[\"camera\"]]");
    assert_true(kit.result.looked);
    kit_done(&kit);
}

static void what_is_not_there_names_what_is(void **state)
{
    static const struct {
        const char *call;
        const char *message;
    } cases[] = {
        {"file('camera')",
         "walle.file: no \"camera\"; there is: labels.txt, empty, nothing, large.bin"},
        {"blob('labels.txt')", "walle.blob: no \"labels.txt\"; there is: camera"},
        {"file('large.bin')",
         "walle.file: \"large.bin\" is 4883 KiB, too much for the task's 256 KiB "
         "(heap_kib in task.json)"},
    };
    struct vm_kit kit;
    (void)state;
    kit_init(&kit, 256);
    given_fill(&kit);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char source[200];
        (void)snprintf(source, sizeof(source), "import walle\nwalle.%s\n", cases[i].call);
        kit_run_source(&kit, source);
        assert_string_equal(kit.result.message, cases[i].message);
        assert_string_equal(kit.result.type, i == 2 ? "MemoryError" : "OSError");
        assert_int_equal(kit.result.end, i == 2 ? DEV_VM_MEMORY : DEV_VM_EXCEPTION);
    }
    kit_run_source(&kit, "import walle\nwalle.file(1)\n");
    assert_string_equal(kit.result.type, "TypeError");
    kit.job.file_count = 0;
    kit_run_source(&kit, "import walle\nwalle.file('x')\n");
    assert_string_equal(kit.result.message, "walle.file: no \"x\"; there is: none");
    kit_done(&kit);
}

// Copies are memory of the run's: as many as there is room for.
static void copies_count_as_memory(void **state)
{
    struct vm_kit kit;
    (void)state;
    kit_init(&kit, 256);
    given_fill(&kit);
    result_is(&kit,
              "import walle\n"
              "kept = []\n"
              "try:\n"
              "    while True:\n"
              "        kept.append(walle.blob('camera'))\n"
              "except MemoryError as e:\n"
              "    count = len(kept)\n"
              "    kept = None\n"
              "walle.result([3 <= count <= 6, len(walle.blob('camera'))])\n",
              "[true,40000]");
    assert_true(kit.result.heap_peak_bytes > 3 * sizeof(frame));
    kit_run_source(&kit, "import walle\nfor i in range(1000):\n    walle.blob('camera')\n");
    assert_int_equal(kit.result.end, DEV_VM_FINISHED); // what is not held goes
    assert_true(kit.result.instructions > 1000 * (sizeof(frame) / 1024));
    kit_done(&kit);
}

// A copy is a unit a KiB, and a run over its budget ends in it.
static void copies_count_as_work(void **state)
{
    struct vm_kit kit;
    (void)state;
    kit_init(&kit, 256);
    given_fill(&kit);
    kit.job.instruction_max = 2000;
    kit_run_source(&kit, "import walle\nwhile True:\n    try:\n        walle.blob('camera')\n"
                         "    except Exception:\n        pass\n");
    assert_int_equal(kit.result.end, DEV_VM_BUDGET);
    kit_done(&kit);
}

// Names of more than the message has room for are cut, wherever that falls.
static void many_names_are_cut(void **state)
{
    struct vm_kit kit;
    struct dev_vm_bytes many[40];
    char names[40][97];
    (void)state;
    kit_init(&kit, 256);
    for (size_t length = 1; length <= 96; length += 19) {
        for (size_t i = 0; i < 40; i++) {
            memset(names[i], 'a', length);
            many[i] = (struct dev_vm_bytes){.name = {names[i], length}, .bytes = frame, .size = 1};
        }
        kit.job.files = many;
        kit.job.file_count = 40;
        kit_run_source(&kit, "import walle\nwalle.file('no.such.file')\n");
        assert_string_equal(kit.result.type, "OSError");
        assert_non_null(strstr(kit.result.message, "walle.file: no \"no.such.file\"; there is: "));
        assert_non_null(strstr(kit.result.message, "..."));
    }
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_as_they_are),
        cmocka_unit_test(copies_count_as_memory),
        cmocka_unit_test(what_is_not_there_names_what_is),
        cmocka_unit_test(copies_count_as_work),
        cmocka_unit_test(many_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
