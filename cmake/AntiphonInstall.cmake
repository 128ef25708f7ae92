# What `cmake --install` puts where, and packages for Debian (cpack -G DEB).
#
# Components: program (program, recipes, ready models, manual pages, completion), library (libantiphon.so.N), development
# (headers, find_package and pkg-config files).
include(CMakePackageConfigHelpers)

set(ANTIPHON_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/antiphon)
install(TARGETS antiphon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(TARGETS antiphon_library EXPORT antiphonTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/antiphon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/include/antiphon.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT antiphonTargets NAMESPACE antiphon:: DESTINATION ${ANTIPHON_CMAKE_DIR} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/package/antiphonConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/package/antiphonConfig.cmake
                              INSTALL_DESTINATION ${ANTIPHON_CMAKE_DIR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
else()
  set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/antiphonConfigVersion.cmake COMPATIBILITY ${compatibility})
install(FILES ${CMAKE_BINARY_DIR}/package/antiphonConfig.cmake ${CMAKE_BINARY_DIR}/package/antiphonConfigVersion.cmake
        DESTINATION ${ANTIPHON_CMAKE_DIR} COMPONENT development)

# Relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH ANTIPHON_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" ANTIPHON_PREFIX_FROM_PC "${ANTIPHON_PREFIX_FROM_PC}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/antiphon.pc.in ${CMAKE_BINARY_DIR}/package/antiphon.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/antiphon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)

file(GLOB recipes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/recipes/*.toml)
install(FILES ${recipes} DESTINATION ${CMAKE_INSTALL_DATADIR}/antiphon/recipes COMPONENT program)
# What their steps run, or include.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes/networks ${PROJECT_SOURCE_DIR}/recipes/scripts
        DESTINATION ${CMAKE_INSTALL_DATADIR}/antiphon/recipes COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "__pycache__" EXCLUDE)
file(GLOB models CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/models/*)
install(FILES ${models} DESTINATION ${CMAKE_INSTALL_DATADIR}/antiphon/models COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)

# The program writes its manual and completions itself, from the descriptions of its options. (A variable
# here must not bear the name of a component: the install script's comparisons would read it.)
install(CODE "
  set(antiphon_file \"$<TARGET_FILE:antiphon>\")
  set(antiphon_pages \"${CMAKE_BINARY_DIR}/package/pages\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/WriteHelpPages.cmake\")" COMPONENT program)
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/pages/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/package/pages/antiphon.bash RENAME antiphon
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
# zsh looks into site-functions of /usr/local; below /usr Debian's looks into vendor-completions instead. Where a tree
# goes is known when it is installed; what cpack packs is installed into a folder of its own that ends in /usr.
install(CODE "
  set(antiphon_completions site-functions)
  if(CMAKE_INSTALL_PREFIX MATCHES \"/usr/*$\")
    set(antiphon_completions vendor-completions)
  endif()
  file(INSTALL \"${CMAKE_BINARY_DIR}/package/pages/_antiphon\"
       DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${antiphon_completions}\")" COMPONENT program)

# Folders of packages are for everybody, whatever the umask of who makes them.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# cpack packs what was built, and builds no tests for it.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_PACKAGE_NAME antiphon)
set(CPACK_PACKAGE_VENDOR Antiphon)
set(CPACK_PACKAGE_CONTACT "Antiphon developers <antiphon@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "acoustic models of speech recognisers: training, compression, recognition")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION sound)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME antiphon)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "trains acoustic models of speech recognisers, and recognises with them")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libantiphon${ANTIPHON_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "speech recognition and training of acoustic models: shared library")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libantiphon-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libantiphon${ANTIPHON_SOVERSION} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "speech recognition and training of acoustic models: headers")
include(CPack)
