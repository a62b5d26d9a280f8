# Puts the text files of a folder into a module, as `files_of_<folder>()`, so that the program needs
# no installed data:
#   sextant_embed(<module> <folder> <file>...)   after sextant_module(<module>)
function(sextant_embed module folder)
  set(entries "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    get_filename_component(stem ${file} NAME_WE)
    # A string literal may have at most 64 KiB; these are short.
    string(APPEND entries "      {\"${stem}\", R\"~~(${text})~~\"},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/embedded/${folder}.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "#include \"base/embedded.h\"

namespace sextant {

std::span<const EmbeddedFile> files_of_${folder}() {
  static constexpr EmbeddedFile kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace sextant
")
  target_sources(sextant_${module} PRIVATE ${source})
endfunction()
