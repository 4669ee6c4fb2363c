// walle.cv where OpenCV is no measure: memory, budgets, what images share with models, hostile
// pictures, and what calls say that are refused. What functions come to is compared with OpenCV in
// e2e/test_cv_differential.py.
#include "vm_kit.h"

#define HEAP_KIB 1024

static int setup(void **state)
{
    static struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

static void prints(struct vm_kit *kit, const char *source, const char *want)
{
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, want);
}

static void a_picture_comes_back_as_it_was(void **state)
{
    prints(
        *state,
        "from walle import np, cv\n"
        "a = (np.arange(5 * 7 * 3) * 7 % 256).astype('uint8').reshape(5, 7, 3)\n"
        "for b in (a, a[..., 0], a[::-1], a[:, 1:4]):\n"
        "    good, file = cv.imencode('.png', b)\n"
        "    c = cv.imdecode(file, cv.IMREAD_UNCHANGED)\n"
        "    print(good, file.dtype, c.shape == b.shape, bool((c == b).all()))\n"
        "good, file = cv.imencode('x.JPG', np.zeros((16, 16, 4), dtype='uint8') + 90)\n"
        "print(cv.imdecode(file, cv.IMREAD_COLOR).shape, cv.imdecode(file, cv.IMREAD_GRAYSCALE)[3, "
        "4])\n"
        "print(cv.imdecode(file.tobytes(), cv.IMREAD_COLOR).shape)\n",
        "True uint8 True True\nTrue uint8 True True\nTrue uint8 True True\nTrue uint8 True True\n"
        "(16, 16, 3) 90\n(16, 16, 3)\n");
}

static void hostile_pictures_are_refused(void **state)
{
    prints(*state,
           "from walle import np, cv\n"
           "def no(data):\n"
           "    try:\n        print('took', cv.imdecode(np.array(data, dtype='uint8'), 1).shape)\n"
           "    except (ValueError, MemoryError) as e:\n        print(type(e).__name__, e)\n"
           "_, png = cv.imencode('.png', np.zeros((3, 3), dtype='uint8'))\n"
           "_, jpg = cv.imencode('.jpg', np.zeros((16, 16, 3), dtype='uint8'))\n"
           "no([])\n"
           "no([1, 2, 3])\n"
           "no(png[:20])\n"
           "bad = png.copy()\nbad[18] = 9\nno(bad)\n"
           "bad = jpg.copy()\nfor i in range(len(bad) - 1):\n"
           "    if bad[i] == 255 and bad[i + 1] == 192:\n"
           "        bad[i + 5] = 127\n        bad[i + 7] = 127\n        no(bad)\n"
           "        bad[i + 5] = 255\n        no(bad)\n"
           "        break\n",
           "ValueError walle.cv: imdecode: the bytes of a file are uint8, and not none\n"
           "ValueError walle.cv: imdecode: the bytes are neither of a JPEG nor of a PNG\n"
           "ValueError walle.cv: PNG: it ends within a chunk\n"
           "ValueError walle.cv: PNG: IHDR: CRC error\n"
           "MemoryError walle.np: 3174212528 bytes for an array; the task's memory is 1024 KiB "
           "(heap_kib in task.json)\n"
           "ValueError walle.cv: JPEG: a side of more than 32767 pixels\n");
}

static void what_is_refused_says_why(void **state)
{
    prints(*state,
           "from walle import np, cv\n"
           "a = np.zeros((4, 4, 3), dtype='uint8')\n"
           "for f in (lambda: cv.flip([[1]], 0), lambda: cv.flip(a > 1, 0),\n"
           "          lambda: cv.cvtColor(a[..., 0], cv.COLOR_BGR2GRAY),\n"
           "          lambda: cv.resize(a, (0, 4)), lambda: cv.blur(a, (0, 1)),\n"
           "          lambda: cv.flip(a[:0], 0), lambda: cv.warpAffine(a, np.eye(3), (2, 2)),\n"
           "          lambda: cv.crop_resize_normalize(a, (2, 2), rect=(1, 1, 4, 1)),\n"
           "          lambda: cv.GaussianBlur(a, (2, 2), 1)):\n"
           "    try:\n        print('took', f())\n"
           "    except (cv.error, TypeError) as e:\n        print(type(e).__name__, e)\n",
           "TypeError walle.cv: an image is an array, not a list\n"
           "TypeError walle.cv: not of images of bool\n"
           "ValueError walle.cv: this code takes 3 channels, not 1\n"
           "ValueError walle.cv: a size is above 0\n"
           "ValueError walle.cv: a box has 1 to 1024 places on each side\n"
           "ValueError walle.cv: the image has no pixels\n"
           "ValueError walle.cv: a matrix of 2 rows and 3 columns is needed\n"
           "ValueError walle.cv: the rectangle is not within the image\n"
           "ValueError walle.cv: the sides of a Gaussian are odd, or 0 with a sigma\n");
}

static void memory_ends_with_an_error(void **state)
{
    prints(*state,
           "from walle import np, cv\n"
           "a = np.zeros((9, 9), dtype='uint8')\n"
           "for f in (lambda: cv.resize(a, (5000, 5000)), lambda: cv.copyMakeBorder(a, 9000, 0, "
           "9000, 0, 0),\n"
           "          lambda: cv.resize(a, (2 ** 31 - 1, 2 ** 31 - 1))):\n"
           "    try:\n        print('took', f().shape)\n"
           "    except MemoryError as e:\n        print('MemoryError')\n"
           "print(cv.resize(a, (90, 90)).shape)\n",
           "MemoryError\nMemoryError\nMemoryError\n(90, 90)\n");
}

static void arrays_without_rows_are_no_images(void **state)
{
    prints(
        *state,
        "from walle import np, cv\n"
        "a = np.array(5, dtype='uint8')\n"
        "for f in (lambda: cv.flip(a, 0), lambda: cv.dilate(a, None),\n"
        "          lambda: cv.findContours(a, 1, 1), lambda: cv.line(a, (0, 0), (1, 1), 1),\n"
        "          lambda: cv.convexHull(a.astype('int32'))):\n"
        "    try:\n        print('took', f())\n"
        "    except ValueError as e:\n        print(e)\n",
        "walle.cv: an image has rows, columns and at most 512 channels\n"
        "walle.cv: an image has rows, columns and at most 512 channels\n"
        "walle.cv: an image has rows, columns and at most 512 channels\n"
        "walle.cv: what is drawn on has rows, columns and at most 4 channels, and may be written\n"
        "walle.cv: an image has rows, columns and at most 512 channels\n");
}

// A view is drawn on where it lies, and nothing beside it.
static void what_is_drawn_stays_in_its_view(void **state)
{
    prints(*state,
           "from walle import np, cv\n"
           "a = np.zeros((6, 8), dtype='uint8')\n"
           "b = a[1:5:2, 6:2:-1]\n"
           "print(cv.rectangle(b, (-5, -5), (9, 9), 7, -1) is b, int(a.sum()), int(b.sum()))\n"
           "print(cv.line(b, (-99, 0), (99, 1), 1, 30) is b, int(a.sum()), a[1, 3:7].sum() == 4)\n"
           "links = np.array([[[0, 1, 1, 0], [1, 0, 0, 1]]], dtype='int32')\n"
           "p = [np.array([[1, 1]], dtype='int32'), np.array([[2, 1]], dtype='int32')]\n"
           "cv.drawContours(a, p, -1, 9, hierarchy=links)\n"
           "print(a[1, 1], a[1, 2])\n"
           "try:\n    cv.drawContours(a, p, 0, 9, hierarchy=links + 7)\n"
           "except ValueError as e:\n    print(e)\n",
           "True 56 56\nTrue 8 True\n9 9\n"
           "walle.cv: the hierarchy names a contour that is not there\n");
}

// Long work within one call is stopped by the run's budget.
static void budgets_hold_within_a_call(void **state)
{
    static const char *const calls[] = {
        "cv.GaussianBlur(a, (255, 255), 30)",
        "cv.filter2D(a, -1, np.arange(3600).reshape(60, 60) % 7.0)",
        "cv.filter2D(a, -1, np.arange(900).reshape(30, 30) % 7.0)",
        "[cv.blur(a, (60, 60)) for i in range(1000)]",
        "for i in range(1000): cv.pyrDown(a)",
        "cv.warpAffine(a, np.eye(3)[:2], (300, 300), flags=2)",
        "cv.resize(a, (600, 300), interpolation=2)",
        "cv.dilate(a, cv.getStructuringElement(1, (9, 9)), iterations=1000)",
        "[cv.imencode('.png', a) for i in range(1000)]",
        "[cv.findContours(a, 3, 1) for i in range(1000)]",
        "[cv.connectedComponentsWithStats(a) for i in range(1000)]",
        "[cv.convexHull(np.ones((9999, 2), dtype='int32')) for i in range(1000)]",
        "[cv.line(a, (-9, 9), (999, 9), 1, thickness=99) for i in range(1000)]",
        "cv.fillPoly(a, [np.array([[0, -9999999], [9, -9999999], [5, 9]], dtype='int32')], 1)",
        "cv.circle(a, (0, 0), 16777216, 1)",
        "cv.bilateralFilter(a, 99, 9, 9)",
        "[cv.pyrUp(a) for i in range(1000)]",
        "[cv.getRectSubPix(a, (99, 99), (9, 9)) for i in range(1000)]",
        "[cv.solve(np.ones((60, 60)), np.ones((60, 1)), flags=1) for i in range(1000)]",
        "[cv.cvtColor(a, cv.COLOR_GRAY2BGR) for i in range(10000)]",
    };
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source),
                       "from walle import np, cv\n"
                       "a = np.zeros((150, 150), dtype='uint8')\n%s\n",
                       calls[i]);
        kit->job.instruction_max = 400;
        kit_run_source(kit, source);
        kit->job.instruction_max = 0;
        print_message("%s\n", calls[i]);
        kit_ended(kit, DEV_VM_BUDGET);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_comes_back_as_it_was),
        cmocka_unit_test(hostile_pictures_are_refused),
        cmocka_unit_test(what_is_refused_says_why),
        cmocka_unit_test(memory_ends_with_an_error),
        cmocka_unit_test(arrays_without_rows_are_no_images),
        cmocka_unit_test(what_is_drawn_stays_in_its_view),
        cmocka_unit_test(budgets_hold_within_a_call),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
