#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

// The statement throws Error of this Fault with `text` somewhere in its message.
#define EXPECT_ERROR(statement, kind, text)                                               \
  do {                                                                                    \
    try {                                                                                 \
      statement;                                                                          \
      ADD_FAILURE() << "no error from " #statement;                                       \
    } catch (const ::sextant::Error& error) {                                             \
      EXPECT_EQ(error.fault(), ::sextant::Fault::kind) << error.what();                   \
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); \
    }                                                                                     \
  } while (false)
