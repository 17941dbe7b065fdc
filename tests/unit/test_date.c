/* test_date.c - moments in the two forms that services write, against the C library's calendar. */
#include "base/date.h"
#include "harness.h"

TEST(moments_as_services_write_them)
{
    i64 s = -1;
    CHECK(date_iso(STR("2017-09-18T08:22:00Z"), &s));
    CHECK_EQ(s, 1505722920);
    CHECK(date_iso(STR("2020-02-29T23:59:59.123456Z"), &s));
    CHECK_EQ(s, 1583020799);
    CHECK(date_http(STR("Mon, 19 Sep 2016 18:29:47 GMT"), &s));
    CHECK_EQ(s, 1474309787);
    CHECK(date_iso(STR("1970-01-01T00:00:00Z"), &s));
    CHECK_EQ(s, 0);
}

TEST(what_is_no_moment_is_refused)
{
    static const char *const iso[]  = { "",
                                        "2017-09-18",
                                        "2017-09-18T08:22:00",
                                        "2017-13-18T08:22:00Z",
                                        "2017-02-29T08:22:00Z",
                                        "2017-09-18T24:00:00Z",
                                        "2017-09-00T08:22:00Z",
                                        "2017-09-18T08:22:00.Z",
                                        "2017-09-18T08:22:00+01:00",
                                        "x017-09-18T08:22:00Z" };
    static const char *const http[] = { "",
                                        "Mon, 19 Sep 2016 18:29:47",
                                        "Mon, 19 Xxx 2016 18:29:47 GMT",
                                        "Mon, 32 Sep 2016 18:29:47 GMT",
                                        "Monday, 19-Sep-16 18:29:47 GMT",
                                        "Mon, 19 Sep 2016 18:29:47 GMT " };
    i64                      s;
    for (i64 i = 0; i < COUNT_OF(iso); i++) CHECK(!date_iso(str_of(iso[i]), &s));
    for (i64 i = 0; i < COUNT_OF(http); i++) CHECK(!date_http(str_of(http[i]), &s));
}

TEST(any_moment_reads_back_as_it_was_written)
{
    u64 state = test_seed();
    for (i64 i = 0; i < 20000; i++) {
        struct arena here = *perm;
        struct tm    tm;
        char         text[64];
        i64          back;
        state         = state * 6364136223846793005u + 1442695040888963407u;
        time_t moment = (time_t)(state >> 31); /* to the year 2242 */
        gmtime_r(&moment, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
        CHECK_STR(date_text(&here, (i64)moment), text);
        CHECK(date_iso(str_of(text), &back));
        CHECK_EQ(back, (i64)moment);
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        CHECK(date_http(str_of(text), &back));
        CHECK_EQ(back, (i64)moment);
    }
}
