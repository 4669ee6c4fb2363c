// The line protocol of the engine benchmark's workers (worker_io.h); single-threaded.
#include "worker_io.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_BYTES_MAX 4096
#define PATH_BYTES_MAX (LINE_BYTES_MAX + 64)

void worker_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("error ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    exit(1);
}

uint64_t worker_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void *read_file(const char *folder, const char *name, size_t *out_bytes)
{
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        worker_fail("%s: %s", path, strerror(errno));
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *data = aligned_alloc(64, ((size_t)size + 64) / 64 * 64);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
        worker_fail("%s: cannot be read", path);
    }
    fclose(file);
    *out_bytes = (size_t)size;
    return data;
}

uint64_t worker_number(const char *text, size_t size)
{
    uint64_t number;
    if (base_str_u64((struct base_str){text, size}, &number) != BASE_OK) {
        worker_fail("not a number: %.*s", (int)size, text);
    }
    return number;
}

// NAME DTYPE DIM,DIM,... (no dims: a scalar)
static void parse_input(struct worker_input *input, const char *line)
{
    size_t name = strcspn(line, " ");
    if (name >= sizeof input->name || line[name] != ' ') {
        worker_fail("inputs.txt: bad line: %s", line);
    }
    memcpy(input->name, line, name);
    const char *at = line + name + 1;
    size_t length = strcspn(at, " \n");
    input->dtype = (int)worker_number(at, length);
    at += length + (at[length] == ' ' ? 1 : 0);
    while (*at != '\0' && *at != '\n' && input->rank < WORKER_RANK_MAX) {
        length = strcspn(at, ",\n");
        input->dims[input->rank++] = (int64_t)worker_number(at, length);
        at += length + (at[length] == ',' ? 1 : 0);
    }
}

void worker_read_inputs(struct worker *worker, const char *folder)
{
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/inputs.txt", folder);
    FILE *file = fopen(path, "r");
    if (!file) {
        worker_fail("%s: %s", path, strerror(errno));
    }
    char line[LINE_BYTES_MAX];
    while (fgets(line, sizeof line, file) && worker->input_count < WORKER_INPUTS_MAX) {
        struct worker_input *input = &worker->inputs[worker->input_count++];
        parse_input(input, line);
        input->data = read_file(folder, input->name, &input->bytes);
    }
    fclose(file);
}

static void answer_run(struct worker *worker, uint64_t count)
{
    printf("times");
    for (uint64_t i = 0; i < count; i++) {
        struct timespec begin;
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (worker->run(worker->ctx) != 0) {
            worker_fail("the run failed");
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double us =
            (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
        printf(" %.2f", us);
    }
    printf("\n");
}

static void answer_out(struct worker *worker, const char *folder)
{
    size_t index = 0;
    for (; index < WORKER_OUTPUTS_MAX; index++) {
        size_t bytes;
        const void *data = worker->output(worker->ctx, index, &bytes);
        if (!data) {
            break;
        }
        char path[PATH_BYTES_MAX];
        snprintf(path, sizeof path, "%s/%zu.bin", folder, index);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
            worker_fail("%s: cannot be written", path);
        }
    }
    printf("out %zu\n", index);
}

// Value of a "Name:   123 kB" line, 0 when `line` is another one.
static uint64_t status_kib(const char *line, const char *name)
{
    if (strncmp(line, name, strlen(name)) != 0) {
        return 0;
    }
    const char *at = line + strcspn(line, "0123456789");
    return worker_number(at, strspn(at, "0123456789"));
}

static void answer_memory(const struct worker *worker)
{
    uint64_t peak = 0;
    uint64_t now = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        peak += status_kib(line, "VmHWM:");
        now += status_kib(line, "VmRSS:");
    }
    if (file) {
        fclose(file);
    }
    printf("memory %llu %llu %s\n", (unsigned long long)peak, (unsigned long long)now,
           worker->extra ? worker->extra : "-");
}

void worker_serve(struct worker *worker, uint64_t load_us)
{
    printf("ready %llu\n", (unsigned long long)load_us);
    fflush(stdout);
    char line[LINE_BYTES_MAX];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "run ", 4) == 0) {
            answer_run(worker, worker_number(line + 4, strlen(line + 4)));
        } else if (strncmp(line, "out ", 4) == 0) {
            answer_out(worker, line + 4);
        } else if (strcmp(line, "memory") == 0) {
            answer_memory(worker);
        } else if (strcmp(line, "quit") == 0) {
            return;
        } else {
            printf("error unknown line\n");
        }
        fflush(stdout);
    }
}
