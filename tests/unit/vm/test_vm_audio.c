// walle.audio where SciPy is no measure: memory, budgets, what is left of a signal, and WAV files
// that are no good, each with what is said of it. What functions come to is compared with SciPy in
// e2e/test_audio_differential.py.
#include "vm_kit.h"

#include "vm/audio/wav_file.h"

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

// --- WAV files

// A file of one channel of 16 bits with two samples; tests change bytes of it.
static const uint8_t good[] = {'R', 'I', 'F', 'F', 40,  0,  0, 0, 'W', 'A', 'V', 'E',
                               'f', 'm', 't', ' ', 16,  0,  0, 0, 1,   0,   1,   0,
                               64,  31,  0,   0,   128, 62, 0, 0, 2,   0,   16,  0,
                               'd', 'a', 't', 'a', 4,   0,  0, 0, 0,   128, 0,   64};

static void said_of(size_t at, uint8_t byte, size_t size, const char *want)
{
    uint8_t bytes[sizeof(good)];
    struct dev_wav wav;
    struct base_error error = {.status = BASE_OK};
    memcpy(bytes, good, sizeof(good));
    bytes[at] = byte;
    uint8_t *whole = malloc(size > 0 ? size : 1); // so that a read past the end is seen
    assert_non_null(whole);
    memcpy(whole, bytes, size);
    assert_int_not_equal(dev_wav_parse(whole, size, &wav, &error), BASE_OK);
    assert_string_equal(error.text, want);
    free(whole);
}

static void bad_files_are_told_apart(void **state)
{
    (void)state;
    struct dev_wav wav;
    double samples[2];
    assert_int_equal(dev_wav_parse(good, sizeof(good), &wav, NULL), BASE_OK);
    assert_int_equal(wav.rate, 8000);
    assert_int_equal(wav.frames, 2);
    dev_wav_samples(wav.form, good + wav.data_at, 2, samples);
    assert_true(samples[0] == -1 && samples[1] == 0.5);
    said_of(0, 'r', sizeof(good), "no WAV file: it does not begin with RIFF and WAVE");
    said_of(0, 'R', 11, "no WAV file: it does not begin with RIFF and WAVE");
    said_of(0, 'R', 12, "no samples up to byte 12");
    said_of(0, 'R', 43, "no samples up to byte 36");
    said_of(16, 14, sizeof(good), "the format at byte 20 has 14 bytes, not 16 or more");
    said_of(16, 200, sizeof(good), "a chunk of 200 bytes at byte 20, and 28 are there");
    said_of(15, 'x', sizeof(good), "samples at byte 44 before their format");
    said_of(20, 2, sizeof(good),
            "samples of format 2 with 16 bits (byte 20): PCM of 8, 16, 24 or 32 bits and float of "
            "32 are read");
    said_of(34, 12, sizeof(good),
            "samples of format 1 with 12 bits (byte 20): PCM of 8, 16, 24 or 32 bits and float of "
            "32 are read");
    said_of(22, 0, sizeof(good), "0 channels of 8000 frames a second (byte 20)");
    said_of(23, 1, sizeof(good), "257 channels of 8000 frames a second (byte 20)");
    said_of(32, 3, sizeof(good), "a frame of 3 bytes, not 2 (byte 20)");
    said_of(40, 5, sizeof(good), "5 bytes of samples at byte 44, and 4 are there");
    said_of(40, 3, sizeof(good), "3 bytes of samples at byte 44 are no whole frames of 2");
    said_of(0, 'R', 47, "4 bytes of samples at byte 44, and 3 are there");
}

static void too_long_files_are_not_written(void **state)
{
    (void)state;
    uint8_t header[DEV_WAV_HEADER_BYTES];
    struct dev_wav wav = {.form = DEV_WAV_PCM16, .channels = 2, .rate = 8000, .frames = 10};
    assert_int_equal(dev_wav_header(&wav, header), BASE_OK);
    wav.frames = (size_t)1 << 30;
    assert_int_equal(dev_wav_header(&wav, header), BASE_ERR_TOO_LARGE);
    wav.frames = SIZE_MAX / 2;
    assert_int_equal(dev_wav_header(&wav, header), BASE_ERR_TOO_LARGE);
}

// --- in a script

static void memory_errors_say_what_to_do(void **state)
{
    prints(*state,
           "from walle import np, audio\n"
           "long = np.broadcast_to(np.ones(1), (2 ** 30,))\n"
           "def no(f):\n"
           "    try:\n        print('took', f())\n"
           "    except MemoryError as e:\n        print(str(e)[:10], end=' ')\n"
           "no(lambda: audio.hann(2 ** 28))\n"
           "no(lambda: audio.stft(long))\n"
           "no(lambda: audio.stft(np.ones(9), nperseg=4, nfft=2 ** 29))\n"
           "no(lambda: audio.spectrogram(long, nperseg=2 ** 29))\n"
           "no(lambda: audio.istft(np.ones((2, 9, 2)), nfft=3, nperseg=2, noverlap=0) and\n"
           "   audio.istft(np.broadcast_to(np.ones(1), (3, 2 ** 30, 2))))\n"
           "no(lambda: audio.resample_poly(np.ones(9), 2 ** 24, 1))\n"
           "no(lambda: audio.resample_poly(long, 2 ** 24, 2 ** 24 - 1))\n"
           "no(lambda: audio.mel(16000, 2 ** 20, 2 ** 20))\n"
           "no(lambda: audio.mfcc(long, 16000))\n"
           "no(lambda: audio.dct(long))\n"
           "no(lambda: audio.preemphasis(long))\n"
           "no(lambda: audio.wav_encode(long, 8000))\n"
           "print(audio.rms(np.ones(512)).tolist())\n",
           "walle.np:  walle.np:  walle.np:  walle.np:  walle.np:  walle.np:  walle.np:  "
           "walle.np:  walle.np:  walle.np:  walle.np:  walle.np:  [1.0]\n");
}

// Long work in C: the limit of instructions ends each, whatever it is.
static void budgets_hold_inside(void **state)
{
    static const char *const work[] = {
        "audio.rms(long, 2 ** 30, 1)",
        "audio.zero_crossing_rate(long, 2 ** 30, 1)",
        "[audio.stft(np.ones(4096), nperseg=1024, noverlap=1000) for i in range(2 ** 30)]",
        "[audio.dct(np.ones(4001)) for i in range(2 ** 30)]",
        "[audio.hann(1000) for i in range(2 ** 30)]",
        "[audio.resample_poly(np.ones(999), 160, 441) for i in range(2 ** 30)]",
        "[audio.mfcc(np.ones(999), 16000) for i in range(2 ** 30)]",
        "[audio.mel(16000, 128) for i in range(2 ** 30)]",
        "[audio.wav_encode(np.ones(999), 8000) for i in range(2 ** 30)]",
    };
    struct vm_kit *kit = *state;
    kit->job.instruction_max = 100000;
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source),
                       "from walle import np, audio\n"
                       "long = np.broadcast_to(np.ones(1), (2 ** 30,))\n"
                       "try:\n    x = %s\nexcept MemoryError:\n"
                       "    while True:\n        pass\n",
                       work[i]);
        kit_run_source(kit, source);
        if (kit->result.end != DEV_VM_BUDGET) {
            fail_msg("%s ended %s: %s", work[i], dev_vm_end_name(kit->result.end),
                     kit->result.message);
        }
    }
    kit->job.instruction_max = 0;
}

static void frames_share_and_cannot_be_written(void **state)
{
    prints(*state,
           "from walle import np, audio\n"
           "x = np.arange(8.0)\n"
           "f = audio.frames(x, 4, 2)\n"
           "x[2] = 99\n"
           "print(f.tolist())\n"
           "try:\n    f[0, 0] = 1\nexcept ValueError as e:\n    print(e)\n",
           "[[0.0, 1.0, 99.0, 3.0], [99.0, 3.0, 4.0, 5.0], [4.0, 5.0, 6.0, 7.0]]\n"
           "walle.np: assignment destination is read-only\n");
}

// Whole way: a tone is written, read, brought to another rate and found where it is.
static void a_tone_is_found(void **state)
{
    prints(*state,
           "from walle import np, audio\n"
           "x = 0.5 * np.sin(np.arange(8000) * (2 * np.pi * 1000 / 16000))\n"
           "y, rate = audio.wav_decode(audio.wav_encode(x, 16000))\n"
           "z = audio.resample_poly(y, 8000, rate)\n"
           "f, t, s = audio.spectrogram(z, 8000)\n"
           "print(rate, y.dtype, z.size, f[int(s[:, 5].argmax())])\n"
           "back = audio.istft(audio.stft(x)[2])[1]\n"
           "print(float(np.abs(back[:8000] - x).max()) < 1e-12)\n",
           "16000 float32 4000 1000.0\nTrue\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files_are_told_apart),
        cmocka_unit_test(too_long_files_are_not_written),
        cmocka_unit_test(memory_errors_say_what_to_do),
        cmocka_unit_test(budgets_hold_inside),
        cmocka_unit_test(frames_share_and_cannot_be_written),
        cmocka_unit_test(a_tone_is_found),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
