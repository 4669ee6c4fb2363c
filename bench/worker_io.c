// The line protocol of the engine benchmark's workers (worker_io.h); single-threaded.
#include "worker_io.h"

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

static void parse_input(struct worker_input *input, const char *line)
{
    char dims[256] = "";
    if (sscanf(line, "%127s %d %255s", input->name, &input->dtype, dims) < 2) {
        worker_fail("inputs.txt: bad line: %s", line);
    }
    for (char *at = dims; *at != '\0' && input->rank < WORKER_RANK_MAX;) {
        char *end;
        input->dims[input->rank++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
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

static void answer_run(struct worker *worker, long count)
{
    printf("times");
    for (long i = 0; i < count; i++) {
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

static void answer_memory(const struct worker *worker)
{
    long peak = 0;
    long now = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        (void)sscanf(line, "VmHWM: %ld", &peak);
        (void)sscanf(line, "VmRSS: %ld", &now);
    }
    if (file) {
        fclose(file);
    }
    printf("memory %ld %ld %s\n", peak, now, worker->extra ? worker->extra : "-");
}

void worker_serve(struct worker *worker, uint64_t load_us)
{
    printf("ready %llu\n", (unsigned long long)load_us);
    fflush(stdout);
    char line[LINE_BYTES_MAX];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "run ", 4) == 0) {
            answer_run(worker, strtol(line + 4, NULL, 10));
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
