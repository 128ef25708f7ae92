// Kaldi's compressed matrices: CM (one byte per value, percentiles per column), CM2 (16 bits) and CM3 (8 bits) over one
// range.
//
// Shapes: one frame per row; CM holds its bytes column by column, the others row by row. Errors: InputError for sizes
// that the file cannot hold and, when writing, for values that are not finite. Source: Kaldi's
// matrix/compressed-matrix.{h,cc}.
#pragma once

#include <string>
#include <string_view>

#include "data/archive.h"
#include "data/byte_source.h"
#include "math/matrix.h"

namespace antiphon::data {

/// "CM", "CM2" or "CM3".
bool IsCompressedToken(std::string_view token);

/// What follows the token.
Matrix ReadCompressedMatrix(std::string_view token, ByteSource& in);

/// Passes over what follows the token.
void SkipCompressedMatrix(std::string_view token, ByteSource& in);

/// Appends token, header and data. coding is not kPlain.
void AppendCompressedMatrix(ConstMatrixView matrix, MatrixCoding coding, std::string& out);

/// What a table gives back that holds the matrix in this coding.
Matrix AsStored(ConstMatrixView matrix, MatrixCoding coding);

}  // namespace antiphon::data
