/* test_machine_here.c - what is said of the machine at hand is possible, and FRUGAL_VECTORS is heeded. */
#include "backend/cpu/kernel.h"
#include "harness.h"
#include "job/libraries.h"
#include "job/machine_here.h"

TEST(a_machine_has_cores_memory_and_speed)
{
    struct machine_here m = machine_look(os_real(), perm);
    CHECK(m.cpu.len > 0);
    CHECK(m.cores_usable >= 1 && m.cores_usable <= m.cores);
    CHECK(m.memory_free_bytes > 0 && m.memory_free_bytes <= m.memory_bytes);
    CHECK(m.flops_s[DT_F32] > 0 && m.bandwidth_bytes_s > 0);
    CHECK_STR(str_of(m.vectors), str_of(isa_word(processor_isa())));
    CHECK_STR(str_of(m.vectors_used), str_of(isa_word(kernel_isa())));
    CHECK_EQ(m.vectors_limited, kernel_isa() < processor_isa());
    CHECK(m.gpu.len > 0 || m.gpu_missing.len > 0); /* one of them is said */
}

/* Whatever is found has a version that begins with a digit. */
TEST(libraries_that_are_found_have_a_version)
{
    CHECK(library_count > 0);
    for (i64 i = 0; i < library_count; i++) {
        struct str version = library_version(&libraries[i], perm);
        CHECK(!version.len || (version.data[0] >= '0' && version.data[0] <= '9'));
        if (!libraries[i].soname) CHECK_EQ(version.len, 0);
    }
}
