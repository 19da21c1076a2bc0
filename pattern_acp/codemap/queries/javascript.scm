(class_declaration name: (_) @name body: (_) @body) @def.class
(function_declaration name: (identifier) @name body: (_) @body) @def.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @def.function
(method_definition name: (_) @name body: (_) @body) @def.method
(variable_declarator name: (identifier) @name value: (arrow_function body: (_) @body)) @def.function
(variable_declarator name: (identifier) @name value: (function_expression body: (_) @body)) @def.function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class
(assignment_expression
  left: (member_expression object: (_) @owner property: (property_identifier) @name)
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function
(program (lexical_declaration (variable_declarator name: (identifier) @name) @def.variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @def.variable))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @def.variable)))

(import_statement) @import
(export_statement source: (string)) @import
(call_expression function: (identifier) @required arguments: (arguments (string)) (#eq? @required "require")) @import
(call_expression function: (import) arguments: (arguments (string))) @import

(export_specifier name: (identifier) @exported)
(export_statement value: (identifier) @exported)
(assignment_expression
  left: (member_expression object: (identifier) @module property: (property_identifier) @member)
  right: (identifier) @exported
  (#eq? @module "module") (#eq? @member "exports"))
(assignment_expression
  left: (member_expression object: (identifier) @module property: (property_identifier) @member)
  right: (object [(shorthand_property_identifier) @exported (pair value: (identifier) @exported)])
  (#eq? @module "module") (#eq? @member "exports"))

(call_expression function: (identifier) @call)
(call_expression function: (member_expression object: (_) @receiver property: (property_identifier) @call))
(new_expression constructor: (identifier) @call)
(new_expression constructor: (member_expression object: (_) @receiver property: (property_identifier) @call))
(class_body (field_definition property: (_) @name value: (arrow_function body: (_) @body)) @def.method)
(class_body (field_definition property: (_) @name) @def.field)
(class_heritage (identifier) @inherit)
(class_heritage (member_expression object: (_) @receiver property: (property_identifier) @inherit))
(jsx_self_closing_element name: (identifier) @call)
(jsx_opening_element name: (identifier) @call)
(jsx_self_closing_element name: (member_expression object: (_) @receiver property: (property_identifier) @call))
(jsx_opening_element name: (member_expression object: (_) @receiver property: (property_identifier) @call))
