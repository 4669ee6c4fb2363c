// Warm images: what a run does until it first looks at something that is not of its content
// (events, input, device, stored features, models) or does something that is seen outside (output,
// result, effects) follows from the content alone, so runs start from a copy of it. A content's
// first run is left there, and begins anew with its modules from the VM's own copy, in which an
// instruction that is none stands where the entry module was: when it gets there, the interpreter's
// state and the used heap are copied, and the instruction is put back. This run and later ones copy
// them back. Called by vm_run.c at the start and the end of a run, on the VM's thread. Why a copy
// is as good as the original: docs/VM.md, "Warm images".
#include "vm/vm_state.h"

#include "base/check.h"

#include "py/bc.h"
#include "py/gc.h"
#include "py/objfun.h"
#include "py/runtime.h"

#include "vm_hooks.h"

#include <stdlib.h>
#include <string.h>

#undef memcpy // what is copied here is no work of the script's (mpconfigport.h)
#undef memset
#undef memcmp

#define NO_INSTRUCTION 0x00

enum phase { SEEN, READY, REFUSED };

struct image_module {
    struct base_str name;
    uint8_t *mpy;
    size_t size;
};

struct dev_vm_image {
    enum phase phase;
    bool verified;   // dev_mpy_check passed what it stands for, in the run that took it
    bool crowded;    // more modules were asked for than it can tell of
    size_t bytes;    // of it, and of its copies
    uint8_t *halt;   // in a module's bytes
    uint8_t instead; // what belongs there

    // Content. Texts and bytes lie behind the modules, in one allocation with this.
    uint32_t module_count;
    struct base_str entry;
    struct base_str config;

    // READY.
    const void *state_at; // where the interpreter's state lies, which is the thread's
    uint8_t *copies;      // the state, the table's beginning and the heap's
    size_t table_bytes;
    size_t heap_bytes;
    struct _mp_code_state_t *main;
    uint64_t units;
    uint32_t check_count;
    uint16_t checks[DEV_VM_IMAGE_CHECKS]; // modules asked for, in order

    struct image_module modules[];
};

#ifdef DEV_VM_POISON
void __asan_poison_memory_region(void const volatile *address, size_t size);
void __asan_unpoison_memory_region(void const volatile *address, size_t size);
// What was guarded within the used heap is not any more in a run that makes or uses an image.
static void guard_set(const byte *pool, const byte *pool_end, size_t used)
{
    __asan_poison_memory_region(pool, (size_t)(pool_end - pool));
    __asan_unpoison_memory_region(pool, used);
}
#else
static void guard_set(const byte *pool, const byte *pool_end, size_t used)
{
    (void)pool;
    (void)pool_end;
    (void)used;
}
#endif

// --- content

static bool bytes_same(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

static bool content_same(const struct dev_vm_image *image, const struct dev_vm_job *job)
{
    if (image->module_count != job->module_count || !base_str_equal(image->entry, job->entry) ||
        !base_str_equal(image->config, job->config)) {
        return false;
    }
    for (uint32_t i = 0; i < job->module_count; i++) {
        const struct image_module *kept = &image->modules[i];
        const struct dev_vm_module *module = &job->modules[i];
        if (kept->size != module->size || !base_str_equal(kept->name, module->name)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < job->module_count; i++) {
        const struct image_module *kept = &image->modules[i];
        const uint8_t *mpy = job->modules[i].mpy;
        size_t whole = kept->size;
        size_t at = 0;
        // While an image is to be made, one byte of its modules is another.
        if (image->phase == SEEN && image->halt >= kept->mpy && image->halt < kept->mpy + whole) {
            at = (size_t)(image->halt - kept->mpy) + 1;
            if (mpy[at - 1] != image->instead || !bytes_same(kept->mpy, mpy, at - 1)) {
                return false;
            }
        }
        if (!bytes_same(kept->mpy + at, mpy + at, whole - at)) {
            return false;
        }
    }
    return true;
}

static size_t content_bytes(const struct dev_vm_job *job)
{
    size_t bytes = job->entry.size + job->config.size;
    for (uint32_t i = 0; i < job->module_count; i++) {
        if (job->modules[i].size > DEV_VM_IMAGE_BYTES) {
            return SIZE_MAX;
        }
        bytes += job->modules[i].name.size + job->modules[i].size;
    }
    return bytes + job->module_count * sizeof(struct image_module);
}

static struct base_str text_keep(uint8_t **at, struct base_str text)
{
    struct base_str kept = {(const char *)*at, text.size};
    if (text.size > 0) {
        memcpy(*at, text.data, text.size);
    }
    *at += text.size;
    return kept;
}

// A copy of the job's content; NULL: too large, or no memory.
static struct dev_vm_image *content_keep(const struct dev_vm_job *job)
{
    size_t bytes = content_bytes(job);
    struct dev_vm_image *image =
        bytes <= DEV_VM_IMAGE_BYTES ? malloc(sizeof(*image) + bytes) : NULL;
    if (image == NULL) {
        return NULL;
    }
    memset(image, 0, sizeof(*image));
    image->bytes = sizeof(*image) + bytes;
    image->module_count = job->module_count;
    uint8_t *at = (uint8_t *)&image->modules[job->module_count];
    image->entry = text_keep(&at, job->entry);
    image->config = text_keep(&at, job->config);
    for (uint32_t i = 0; i < job->module_count; i++) {
        const struct dev_vm_module *module = &job->modules[i];
        struct image_module *kept = &image->modules[i];
        kept->name = text_keep(&at, module->name);
        kept->mpy = at;
        kept->size = module->size;
        memcpy(at, module->mpy, module->size);
        at += module->size;
    }
    return image;
}

static void image_free(struct dev_vm_image *image)
{
    if (image != NULL) {
        free(image->copies);
        free(image);
    }
}

void dev_vm_images_free(struct dev_vm *vm)
{
    for (uint32_t i = 0; i < DEV_VM_IMAGES_MAX; i++) {
        image_free(vm->images[i]);
        vm->images[i] = NULL;
    }
}

static size_t images_bytes(const struct dev_vm *vm)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < DEV_VM_IMAGES_MAX; i++) {
        bytes += vm->images[i] != NULL ? vm->images[i]->bytes : 0;
    }
    return bytes;
}

// Lets the oldest go, but for `except`, until so many bytes more are no more than all may have. One
// image alone is never too large.
static void room_make(struct dev_vm *vm, const struct dev_vm_image *except, size_t bytes)
{
    size_t left = images_bytes(vm);
    for (uint32_t i = 0; i < DEV_VM_IMAGES_MAX && left + bytes > DEV_VM_IMAGES_ALL; i++) {
        struct dev_vm_image **oldest = &vm->images[(vm->image_next + i) % DEV_VM_IMAGES_MAX];
        if (*oldest != NULL && *oldest != except) {
            left -= (*oldest)->bytes;
            image_free(*oldest);
            *oldest = NULL;
        }
    }
}

// --- start of a run

void dev_vm_image_pick(struct dev_vm *vm)
{
    base_assert(vm->job != NULL);
    vm->image = NULL;
    vm->warm = false;
    vm->outside = false;
    vm->main = NULL;
    vm->main_first = NULL;
    for (uint32_t i = 0; i < DEV_VM_IMAGES_MAX && !vm->load_only; i++) {
        struct dev_vm_image *image = vm->images[i];
        if (image == NULL || (image->phase == READY && image->state_at != &mp_state_ctx) ||
            !content_same(image, vm->job)) {
            continue;
        }
        uint64_t limit = vm->job->instruction_max;
        vm->image = image;
        vm->warm = image->phase == READY && (limit == 0 || image->units < limit);
        if (image->phase == SEEN) {
            image->check_count = 0;
        }
        vm->judged = vm->judged && (image->phase == SEEN || vm->warm);
        return;
    }
}

bool dev_vm_image_verified(const struct dev_vm *vm)
{
    return vm->warm && vm->image->verified && vm->job->checks == NULL;
}

bool dev_vm_image_check(struct dev_vm *vm)
{
    const struct dev_vm_image *image = vm->image;
    uint32_t count = vm->warm ? image->check_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!dev_vm_module_check(vm, &vm->job->modules[image->checks[i]])) {
            return false;
        }
    }
    return true;
}

const uint8_t *dev_vm_image_bytes(struct dev_vm *vm, const struct dev_vm_module *module)
{
    struct dev_vm_image *image = vm->image;
    if (image == NULL || image->phase == REFUSED) {
        return module->mpy;
    }
    size_t index = (size_t)(module - vm->job->modules);
    base_assert(index < image->module_count);
    bool entry = vm->main == NULL; // the start of a run asks for that one
    if (image->phase == SEEN && !entry) {
        if (image->check_count == DEV_VM_IMAGE_CHECKS) {
            image->crowded = true;
        } else {
            image->checks[image->check_count++] = (uint16_t)index;
        }
    }
    return image->modules[index].mpy;
}

// Bytes of the allocator's table that tell of so many blocks.
static size_t table_bytes_of(const mp_state_mem_area_t *area, size_t blocks)
{
    size_t bytes = blocks / 4 + 1;
    return bytes < area->gc_alloc_table_byte_len ? bytes : area->gc_alloc_table_byte_len;
}

void dev_vm_image_restore(struct dev_vm *vm)
{
    const struct dev_vm_image *image = vm->image;
    base_assert(vm->warm && image->state_at == &mp_state_ctx);
    const uint8_t *from = image->copies;
    memcpy(&mp_state_ctx, from, sizeof(mp_state_ctx));
    from += sizeof(mp_state_ctx);
    const mp_state_mem_area_t *area = &MP_STATE_MEM(area);
    size_t dirty = table_bytes_of(area, vm->heap_used / MICROPY_BYTES_PER_GC_BLOCK);
    memcpy(area->gc_alloc_table_start, from, image->table_bytes);
    if (dirty > image->table_bytes) {
        memset(area->gc_alloc_table_start + image->table_bytes, 0, dirty - image->table_bytes);
    }
    from += image->table_bytes;
    guard_set(area->gc_pool_start, area->gc_pool_end, image->heap_bytes);
    memcpy(area->gc_pool_start, from, image->heap_bytes);
    vm->loading = false;
    vm->main = image->main;
    dev_vm_budget_resume(vm, image->units);
}

// --- in a run

static bool may_be_kept(const struct dev_vm *vm)
{
    return dev_vm_heap_bytes() <= DEV_VM_IMAGE_BYTES &&
           dev_vm_budget_used(vm) <= DEV_VM_IMAGE_UNITS;
}

// Leaves the run, which begins anew.
static _Noreturn void begin_anew(struct dev_vm *vm)
{
    base_assert(vm->restartable);
    vm->again = true;
    vm->judged = true;
    dev_vm_stop(vm, DEV_VM_FINISHED);
}

static bool image_take(struct dev_vm *vm, struct dev_vm_image *image)
{
    const mp_state_mem_area_t *area = &MP_STATE_MEM(area);
    size_t heap_bytes = dev_vm_heap_bytes();
    size_t table_bytes = table_bytes_of(area, heap_bytes / MICROPY_BYTES_PER_GC_BLOCK);
    if (vm->outside || image->crowded || !may_be_kept(vm) ||
        MP_STATE_THREAD(nlr_jump_callback_top) != NULL) {
        return false;
    }
    size_t copies_bytes = sizeof(mp_state_ctx) + table_bytes + heap_bytes;
    uint8_t *copies = malloc(copies_bytes);
    if (copies == NULL) {
        return false;
    }
    room_make(vm, image, copies_bytes);
    image->bytes += copies_bytes;
    guard_set(area->gc_pool_start, area->gc_pool_end, heap_bytes);
    memcpy(copies, &mp_state_ctx, sizeof(mp_state_ctx));
    memcpy(copies + sizeof(mp_state_ctx), area->gc_alloc_table_start, table_bytes);
    memcpy(copies + sizeof(mp_state_ctx) + table_bytes, area->gc_pool_start, heap_bytes);
    image->copies = copies;
    image->state_at = &mp_state_ctx;
    image->table_bytes = table_bytes;
    image->heap_bytes = heap_bytes;
    image->main = vm->main;
    image->verified = vm->job->checks == NULL;
    image->units = dev_vm_budget_used(vm);
    return true;
}

bool dev_vm_image_halt(const struct _mp_code_state_t *code_state)
{
    struct dev_vm *vm = dev_vm_current;
    struct dev_vm_image *image = vm->image;
    if (image == NULL || image->phase != SEEN || code_state->ip != image->halt) {
        return false;
    }
    *image->halt = image->instead;
    bool taken = code_state == vm->main && image_take(vm, image);
    image->phase = taken ? READY : REFUSED;
    if (taken) {
        begin_anew(vm);
    }
    vm->judged = false; // what comes now was not asked for before
    return true;
}

// Begins the image of the job's content, to be made at an instruction of the entry module.
static bool image_begin(struct dev_vm *vm, const uint8_t *at)
{
    const struct dev_vm_module *entry = dev_vm_module_find(vm->job, vm->job->entry);
    bool inside = entry != NULL && at != NULL && at >= entry->mpy && at < entry->mpy + entry->size;
    struct dev_vm_image *image = inside ? content_keep(vm->job) : NULL;
    if (image == NULL) {
        return false;
    }
    image->halt = &image->modules[entry - vm->job->modules].mpy[at - entry->mpy];
    image->instead = *at;
    *image->halt = NO_INSTRUCTION;
    room_make(vm, NULL, image->bytes);
    image_free(vm->images[vm->image_next]);
    vm->images[vm->image_next] = image;
    vm->image_next = (vm->image_next + 1) % DEV_VM_IMAGES_MAX;
    return true;
}

void dev_vm_outside_first(struct dev_vm *vm)
{
    vm->outside = true;
    if (vm->image == NULL && vm->restartable && !vm->job->once && may_be_kept(vm) &&
        image_begin(vm, vm->main->ip)) {
        begin_anew(vm);
    }
}

// --- end of a run

// One that never looked outside is the same up to its end: its image is its beginning.
void dev_vm_image_remember(struct dev_vm *vm)
{
    bool well = vm->out->end == DEV_VM_FINISHED || vm->out->end == DEV_VM_EXCEPTION;
    bool is_wanted = !vm->load_only && !vm->job->once;
    if (vm->image == NULL && !vm->again && !vm->outside && is_wanted && well) {
        (void)image_begin(vm, vm->main_first);
    }
}
